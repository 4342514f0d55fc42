//! Which files a tool may touch: roots, protected paths, symlinks.
