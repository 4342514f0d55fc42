//! Keeps what a template builds on its way small: its steps are counted, and each of them could double a text.
//!
//! So nothing that joins or repeats texts can be written, and nothing that keeps what was written so far. What
//! a template writes is bounded where it is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind};

use super::{Bounded, MAX_OUTPUT};

/// Most bytes that the filters of one rendering may make, together.
const MAX_MADE: usize = 4 << 20;

/// Filters and functions that make much out of little.
const FILTERS: [&str; 9] =
    ["batch", "chain", "format", "indent", "list", "pprint", "replace", "slice", "zip"];
const FUNCTIONS: [&str; 3] = ["debug", "dict", "namespace"];

/// Takes from `engine` what could make much out of little, and bounds what is left of that kind.
pub(super) fn bound(engine: &mut Environment<'_>) {
    FILTERS.iter().for_each(|name| engine.remove_filter(name));
    FUNCTIONS.iter().for_each(|name| engine.remove_global(name));
    let made = Arc::new(AtomicUsize::new(0));
    let joined = Arc::clone(&made);
    engine.add_filter("join", move |list: Value, between: Option<String>| {
        join(&list, between, &joined)
    });
    engine.add_filter("tojson", move |value: Value, options: Kwargs| json(&value, &options, &made));
}

fn join(list: &Value, between: Option<String>, made: &AtomicUsize) -> Result<String, Error> {
    let between = between.unwrap_or_default();
    let mut output = Bounded(Vec::new());
    for (number, item) in list.try_iter()?.enumerate() {
        let gap = if number > 0 { between.as_str() } else { "" };
        std::io::Write::write_fmt(&mut output, format_args!("{gap}{item}")).map_err(too_much)?;
    }
    account(output, made)
}

fn json(value: &Value, options: &Kwargs, made: &AtomicUsize) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    options.assert_all_used()?;
    let mut output = Bounded(Vec::new());
    let written = match indent {
        Some(_) => serde_json::to_writer_pretty(&mut output, value),
        None => serde_json::to_writer(&mut output, value),
    };
    written.map_err(too_much)?;
    account(output, made)
}

fn account(Bounded(bytes): Bounded, made: &AtomicUsize) -> Result<String, Error> {
    if made.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len() > MAX_MADE {
        return Err(too_much(format!("filters make more than {MAX_MADE} bytes")));
    }
    Ok(String::from_utf8(bytes).expect("texts were written"))
}

fn too_much(why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("{why} (a text has at most {MAX_OUTPUT})"))
}

/// The first place of `source` at which texts are joined or kept, with what stands there.
pub(super) fn unbounded(source: &str) -> Option<(usize, String)> {
    let bytes = source.as_bytes();
    let mut at = 0;
    while let Some(found) = source.get(at..)?.find('{') {
        at += found;
        at = match bytes.get(at + 1) {
            Some(b'#') => at + source[at..].find("#}")?,
            Some(b'{' | b'%') => match tag(source, at) {
                Ok((end, true)) => end_of_raw(source, end)?,
                Ok((end, false)) => end,
                Err(fault) => return Some(fault),
            },
            _ => at + 1,
        };
    }
    None
}

/// Reads one tag: where it ends, and whether what follows is no template. Or what is wrong in it, and where.
fn tag(source: &str, start: usize) -> Result<(usize, bool), (usize, String)> {
    let bytes = source.as_bytes();
    let is_block = bytes[start + 1] == b'%';
    let close: &[u8] = if is_block { b"%}" } else { b"}}" };
    let mut at = start + 2 + usize::from(matches!(bytes.get(start + 2), Some(b'-' | b'+')));
    let begins = at;
    let (mut before, mut assigns) = (b' ', false);
    while at < bytes.len() && !bytes[at..].starts_with(close) {
        let byte = bytes[at];
        match byte {
            b'"' | b'\'' => at = end_of_text(bytes, at),
            b'+' if bytes[at + 1..].starts_with(close) => {}
            b'~' | b'+' | b'*' | b'{' => return Err((at, (byte as char).to_string())),
            // After a name or a value it looks something up; anywhere else it makes a list.
            b'[' if !(before.is_ascii_alphanumeric() || b"_])\"'".contains(&before)) => {
                return Err((at, "[".to_owned()));
            }
            b'=' => assigns = true,
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
        at += 1;
    }
    let inside = source.get(begins..at.min(source.len())).unwrap_or_default().trim_start();
    let word = inside.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let keeps = word == "filter" || (word == "set" && !assigns);
    if is_block && keeps {
        return Err((begins + source[begins..].find(word).unwrap_or(0), word.to_owned()));
    }
    Ok((at + 2, is_block && word == "raw"))
}

/// The last byte of the text that begins at `at`.
fn end_of_text(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while end < bytes.len() && bytes[end] != bytes[at] {
        end += 1 + usize::from(bytes[end] == b'\\');
    }
    end
}

fn end_of_raw(source: &str, from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += source.get(at..)?.find("{%")? + 2;
        let inside = source[at..].trim_start_matches(['-', '+']).trim_start();
        if inside.starts_with("endraw") {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_joins_or_keeps_texts_is_found_where_it_stands() {
        for (source, want) in [
            ("a {{ b ~ c }}", Some((7, "~"))),
            ("{{ \"}}\" ~ c }}", Some((8, "~"))),
            ("{{ '\\'' + c }}", Some((8, "+"))),
            ("{{ 'x' * 9 }}", Some((7, "*"))),
            ("{% set a = [b, b] %}", Some((11, "["))),
            ("{% set a = {'b': 1} %}", Some((11, "{"))),
            ("{%- set a -%}x{% endset %}", Some((4, "set"))),
            ("{% filter upper %}x{% endfilter %}", Some((3, "filter"))),
            ("{% raw %}{{ a ~ b }} {{ \" {% endraw %}{{ c ~ d }}", Some((43, "~"))),
            ("a ~ b * c + [d] {e}", None),
            ("{# a ~ b #}{%+ if a[0].b['~'] == \"+*\" +%}x{% endif %}{{- tools[0].name -}}", None),
            ("{% set a = b %}{% raw %}{{ a ~ b }}{% endraw %}", None),
            ("{{ é }}{", None),
            ("{{ 'open", None),
            ("{%", None),
        ] {
            let want = want.map(|(at, what): (usize, &str)| (at, what.to_owned()));
            assert_eq!(unbounded(source), want, "{source}");
        }
    }
}
