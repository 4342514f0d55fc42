//! The tools on offer: names, specs, and a dispatch that always yields a result.
