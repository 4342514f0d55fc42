//! Reads one Rust source into the things the rules speak about, each with its line.
//!
//! The text is lexed into tokens, so comments are gone and strings are known as strings; macro
//! bodies are tokens too and are read like other code. Paths are written out in full with the help
//! of the file's own `use` lines, so that `use std::io; io::stdout()` is seen as
//! `std::io::stdout`. Test code is left out.

use std::collections::HashMap;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// What one source says, test code left out.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// Everything seen, in no particular order.
    pub(crate) seen: Vec<Seen>,
    /// Modules that are declared for tests only and live in files of their own.
    pub test_modules: Vec<String>,
}

/// One thing and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Counted from 1.
    pub(crate) line: usize,
    /// The thing.
    pub(crate) what: What,
}

/// The kinds of things that rules are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// A path such as `std::fs::read`, written out in full.
    Path(String),
    /// An import of everything in a module: what it brings in cannot be seen from here.
    Glob(String),
    /// A method call, by the method's name.
    Method(String),
    /// A macro call, by the last name before the `!`.
    Macro(String),
    /// One of the words `async` and `await`.
    Word(&'static str),
    /// A string literal as it stands in the source.
    Text(String),
}

impl Source {
    /// Reads `text`.
    ///
    /// # Errors
    /// The lexer's word when it is not Rust.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let tokens: TokenStream = text.parse().map_err(|error| format!("not Rust: {error}"))?;
        let mut reader = Reader::default();
        reader.level(tokens);
        reader.write_paths_out();
        Ok(reader.source)
    }
}

#[derive(Default)]
struct Reader {
    source: Source,
    /// What a name stands for in this file; scopes are not told apart.
    imports: HashMap<String, Vec<String>>,
}

impl Reader {
    /// Reads the tokens between one pair of brackets.
    fn level(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at = self.token(&tokens, at);
        }
    }

    /// Reads what starts at `at`; the answer is where the next thing starts.
    fn token(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        match &tokens[at] {
            TokenTree::Punct(punct) if punct.as_char() == '#' => self.attribute(tokens, at),
            TokenTree::Group(group) => {
                self.level(group.stream());
                at + 1
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.contains('"') {
                    self.see(&tokens[at], What::Text(text));
                }
                at + 1
            }
            TokenTree::Ident(ident) if ident == "use" && !is_punct(tokens, at + 1, '<') => {
                let end = find_punct(tokens, at, ';');
                self.import(&tokens[at + 1..end], "");
                end + 1
            }
            TokenTree::Ident(ident) => self.name(&ident.to_string(), tokens, at),
            TokenTree::Punct(_) => at + 1,
        }
    }

    fn attribute(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        let inner = is_punct(tokens, at + 1, '!');
        let after = at + if inner { 2 } else { 1 };
        let Some(TokenTree::Group(group)) = tokens.get(after) else { return at + 1 };
        if is_for_tests(group) {
            // An inner attribute speaks for everything around it, so the rest of the level goes.
            return if inner { tokens.len() } else { self.skip_item(tokens, after + 1) };
        }
        if !starts_with(group, "doc") {
            self.level(group.stream());
        }
        after + 1
    }

    /// Passes over the item after a test attribute, keeping only the name of a module in a file.
    /// It ends with its first braces; the `;` that may follow them says nothing to any rule.
    fn skip_item(&mut self, tokens: &[TokenTree], from: usize) -> usize {
        for at in from..tokens.len() {
            match &tokens[at] {
                TokenTree::Ident(word) if word == "mod" && is_punct(tokens, at + 2, ';') => {
                    self.source.test_modules.push(tokens[at + 1].to_string());
                }
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return at + 1,
                TokenTree::Punct(punct) if punct.as_char() == ';' => return at + 1,
                _ => {}
            }
        }
        tokens.len()
    }

    /// Reads a name in code: a word, a method, a macro, or a path of at least two parts.
    fn name(&mut self, first: &str, tokens: &[TokenTree], at: usize) -> usize {
        if first == "async" || first == "await" {
            let word = if first == "async" { "async" } else { "await" };
            self.see(&tokens[at], What::Word(word));
            return at + 1;
        }
        let after_dot =
            at > 0 && is_punct(tokens, at - 1, '.') && !(at > 1 && is_punct(tokens, at - 2, '.'));
        if after_dot {
            if is_call(tokens, at + 1) {
                self.see(&tokens[at], What::Method(first.to_owned()));
            }
            return at + 1;
        }
        let mut parts = vec![first.to_owned()];
        let mut end = at + 1;
        while is_path_separator(tokens, end) {
            let Some(TokenTree::Ident(part)) = tokens.get(end + 2) else { break };
            parts.push(part.to_string());
            end += 3;
        }
        if is_punct(tokens, end, '!') && !is_punct(tokens, end + 1, '=') {
            let last = parts.last().expect("a path has at least one part").clone();
            self.see(&tokens[at], What::Macro(last));
        }
        if parts.len() > 1 {
            self.see(&tokens[at], What::Path(parts.join("::")));
        }
        end
    }

    /// Reads one level of a `use` line; `before` is the path in front of it.
    fn import(&mut self, tokens: &[TokenTree], before: &str) {
        let mut at = 0;
        while at < tokens.len() {
            at = self.import_one(tokens, at, before) + 1;
        }
    }

    /// Reads one branch of a `use` tree; the answer is where its comma is, or the end.
    fn import_one(&mut self, tokens: &[TokenTree], from: usize, before: &str) -> usize {
        let end = find_punct(tokens, from, ',');
        let mut path = before.to_owned();
        let mut at = from;
        while at < end {
            match &tokens[at] {
                TokenTree::Ident(word) if word == "as" => {
                    self.bring_in(&tokens[from], &tokens[at + 1].to_string(), &path);
                    return end;
                }
                TokenTree::Ident(word) if word == "self" && !path.is_empty() => {}
                TokenTree::Ident(word) => push_part(&mut path, &word.to_string()),
                TokenTree::Group(group) => {
                    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                    self.import(&inside, &path);
                    return end;
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' => {
                    self.see(&tokens[at], What::Glob(path));
                    return end;
                }
                _ => {}
            }
            at += 1;
        }
        if from < end {
            let name = path.rsplit("::").next().unwrap_or_default().to_owned();
            self.bring_in(&tokens[from], &name, &path);
        }
        end
    }

    fn bring_in(&mut self, token: &TokenTree, name: &str, path: &str) {
        self.see(token, What::Path(path.to_owned()));
        self.imports.entry(name.to_owned()).or_default().push(path.to_owned());
    }

    /// Replaces the first part of every path by what an import says it stands for.
    fn write_paths_out(&mut self) {
        for at in 0..self.source.seen.len() {
            let What::Path(path) = &self.source.seen[at].what else { continue };
            let path = path.clone();
            let (first, rest) = path.split_once("::").unwrap_or((&path, ""));
            let Some(meanings) = self.imports.get(first) else { continue };
            let line = self.source.seen[at].line;
            for meaning in meanings {
                let mut full = meaning.clone();
                if !rest.is_empty() {
                    push_part(&mut full, rest);
                }
                if full != path {
                    self.source.seen.push(Seen { line, what: What::Path(full) });
                }
            }
        }
    }

    fn see(&mut self, token: &TokenTree, what: What) {
        self.source.seen.push(Seen { line: token.span().start().line, what });
    }
}

fn push_part(path: &mut String, part: &str) {
    if !path.is_empty() {
        path.push_str("::");
    }
    path.push_str(part);
}

fn is_punct(tokens: &[TokenTree], at: usize, wanted: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens, at, ':') && is_punct(tokens, at + 1, ':')
}

/// Whether a call's arguments follow, with or without `::<types>` before them.
fn is_call(tokens: &[TokenTree], at: usize) -> bool {
    is_path_separator(tokens, at)
        || matches!(tokens.get(at), Some(TokenTree::Group(group))
            if group.delimiter() == Delimiter::Parenthesis)
}

/// Where the next `wanted` on this level is, or the end.
fn find_punct(tokens: &[TokenTree], from: usize, wanted: char) -> usize {
    (from..tokens.len()).find(|&at| is_punct(tokens, at, wanted)).unwrap_or(tokens.len())
}

fn starts_with(attribute: &Group, name: &str) -> bool {
    matches!(attribute.stream().into_iter().next(), Some(TokenTree::Ident(ident)) if ident == name)
}

/// Whether the attribute keeps its item out of what is shipped: `test`, or a `cfg` that asks for it.
fn is_for_tests(attribute: &Group) -> bool {
    let text = attribute.stream().to_string().replace(' ', "");
    text == "test"
        || text.ends_with("::test")
        || (text.starts_with("cfg(")
            && !text.contains("not(test")
            && text.split(['(', ')', ',']).any(|word| word == "test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn paths(text: &str) -> Vec<(usize, String)> {
        let mut paths: Vec<_> = (Source::read(text).unwrap().seen.into_iter())
            .filter_map(|seen| match seen.what {
                What::Path(path) => Some((seen.line, path)),
                _ => None,
            })
            .collect();
        paths.sort();
        paths
    }

    #[track_caller]
    fn sees(text: &str, line: usize, path: &str) {
        let found = paths(text);
        assert!(found.contains(&(line, path.to_owned())), "{path} not on {line}: {found:?}");
    }

    #[test]
    fn a_path_is_written_out_through_the_imports_of_its_file() {
        sees("use std::io;\nfn f() { io::stdout(); }", 2, "std::io::stdout");
        sees("use std::{fs as disk, io};\nfn f() { disk::read(p); }", 2, "std::fs::read");
        sees(
            "use std::process::{self, Command};\nfn f() { process::id(); }",
            2,
            "std::process::id",
        );
        sees("use std::process::{self, Command};", 1, "std::process::Command");
        sees("fn f() {\n    ::std::env::var(x);\n}", 2, "std::env::var");
        sees("fn f() { vec![..std::mem::take(x)] }", 1, "std::mem::take");
    }

    #[test]
    fn macro_bodies_are_read_like_other_code() {
        sees("fn f() {\n tokio::select! {\n  x = std::fs::read(p) => {} } }", 3, "std::fs::read");
    }

    #[test]
    fn comments_and_strings_are_not_code() {
        let text =
            "//! std::fs\n/// [`std::fs`]\n/* std::fs */ fn f() { \"std::fs\"; r#\"std::fs\"#; }";
        assert_eq!(paths(text), []);
    }

    #[test]
    fn test_code_is_left_out_and_the_code_after_it_is_not() {
        let text = "#[cfg(test)]\nmod tests { use std::fs; }\n#[cfg(test)]\nuse std::net::{self};\n\
                    #[tokio::test]\nasync fn t() { std::fs::read(p); }\nfn f() { std::env::vars(); }";
        assert_eq!(paths(text), [(7, "std::env::vars".to_owned())]);
        sees("#[cfg(not(test))]\nfn f() { std::fs::read(p); }", 2, "std::fs::read");
        assert_eq!(paths("#![cfg(test)]\nfn f() { std::fs::read(p); }"), []);
    }

    #[test]
    fn a_test_module_in_a_file_of_its_own_is_named() {
        let source = Source::read("#[cfg(test)]\nmod tests;\nmod other;").unwrap();
        assert_eq!(source.test_modules, ["tests"]);
    }

    #[test]
    fn words_methods_macros_globs_and_strings_are_told_apart() {
        let text = "use std::io::*;\nasync fn f() { x.exists().await; println!(\"hi\"); a != b; }";
        let mut seen = Source::read(text).unwrap().seen;
        seen.sort_by_key(|seen| (seen.line, format!("{:?}", seen.what)));
        let on = |line, what| Seen { line, what };
        assert_eq!(
            seen,
            [
                on(1, What::Glob("std::io".into())),
                on(2, What::Macro("println".into())),
                on(2, What::Method("exists".into())),
                on(2, What::Text("\"hi\"".into())),
                on(2, What::Word("async")),
                on(2, What::Word("await")),
            ]
        );
    }
}
