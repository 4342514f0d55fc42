//! Kind `fs`: the file and search tools on awkward files, and which paths they may touch.

mod paths;
mod process;
mod setup;
mod tools;
