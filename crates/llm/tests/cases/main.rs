//! Drives small inputs that broke other clients through this one, one module for each kind.
//!
//! The cases of this repository lie beside this file, in a folder for each kind. `ANVIL_CASES_DIR`
//! names further folders (separated by `:`) laid out in the same way. Kinds and dialects without an
//! adapter are counted and printed; an expectation that an adapter does not know fails.

#[path = "../support/mod.rs"]
mod decoding;
mod http;
mod schema;
#[path = "../server/mod.rs"]
mod server;
mod sse;
mod support;
mod wire;

#[test]
fn every_stream_case_holds() {
    support::check_kind("sse", sse::run);
}

#[test]
fn every_answer_that_is_no_stream_is_judged_as_its_case_says() {
    support::check_kind("http", http::run);
}

#[test]
fn every_schema_of_a_tool_reaches_a_target_or_is_refused_with_its_place() {
    support::check_kind("schema", schema::run);
}

#[test]
fn every_transcript_case_is_sent_as_its_case_says_or_not_at_all() {
    support::check_kind("wire", wire::run);
}

#[test]
fn kinds_without_an_adapter_are_named() {
    support::name_uncovered_kinds(&["sse", "http", "schema", "wire"]);
}
