//! What an error answer says: its message and its codes, out of whichever shape the server chose.

use serde_json::Value;

/// The most characters of a server's text that anyone is shown; whole pages come back as errors.
pub const MAX_MESSAGE_CHARS: usize = 2_000;

/// An error answer, read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ErrorBody {
    /// What the server says; empty when it said nothing.
    pub message: String,
    /// Its `type`, `code` and `status` fields as text, those that it has.
    pub codes: Vec<String>,
    /// The parsed answer, for what only one server tells (retry hints).
    pub json: Option<Value>,
}

impl ErrorBody {
    /// Reads a body of any shape: the JSON forms of the known servers, an HTML page, plain text.
    pub fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let parsed = serde_json::from_str::<Value>(&text).ok();
        // Google wraps the error of a streaming method into a list.
        let parsed = match parsed {
            Some(Value::Array(mut items)) if !items.is_empty() => Some(items.swap_remove(0)),
            other => other,
        };
        match parsed {
            Some(json @ Value::Object(_)) => {
                let message = message_in(&json).unwrap_or_else(|| json.to_string());
                Self { message, codes: codes_in(&json), json: Some(json) }
            }
            _ if looks_like_html(&text) => Self { message: html_text(&text), ..Self::default() },
            _ => Self { message: first_line(&text), ..Self::default() },
        }
    }
}

/// Shortens a server's text for people, saying so when something is missing.
pub fn bounded(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}… (shortened)", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether a body is a page for browsers: what gateways and login walls answer.
pub fn looks_like_html(text: &str) -> bool {
    let start: String = text.trim_start().chars().take(15).collect::<String>().to_lowercase();
    ["<!doctype html", "<html", "<head", "<body"].iter().any(|tag| start.starts_with(tag))
}

/// Finds the message: `error.message`, `error` as text, `message`, `detail`.
fn message_in(json: &Value) -> Option<String> {
    let error = json.get("error").unwrap_or(json);
    let message = match error {
        Value::String(text) => text.clone(),
        _ => text_at(error, "message").or_else(|| detail(json))?,
    };
    let mut message = message;
    // OpenRouter hides the upstream's own words behind "Provider returned error".
    if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str) {
        message = format!("{message}: {raw}");
    }
    // Groq shows what the model wrote when its own check refused a call.
    if let Some(failed) = error.get("failed_generation").and_then(Value::as_str) {
        message = format!("{message} (the model wrote: {failed})");
    }
    Some(message)
}

/// `detail` is a sentence, or a list of findings with a place and a message each.
fn detail(json: &Value) -> Option<String> {
    match json.get("detail")? {
        Value::String(text) => Some(text.clone()),
        Value::Array(findings) => {
            let texts: Vec<&str> =
                findings.iter().filter_map(|finding| finding.get("msg")?.as_str()).collect();
            (!texts.is_empty()).then(|| texts.join("; "))
        }
        Value::Object(_) => text_at(json.get("detail")?, "message"),
        _ => None,
    }
}

fn text_at(json: &Value, field: &str) -> Option<String> {
    json.get(field)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn codes_in(json: &Value) -> Vec<String> {
    let error = match json.get("error") {
        Some(error @ Value::Object(_)) => error,
        // With `error` as a sentence its code stands beside it.
        _ => json,
    };
    ["type", "code", "status"]
        .iter()
        .filter_map(|field| match error.get(field)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        })
        .collect()
}

fn first_line(text: &str) -> String {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

/// The words of a page without its markup.
fn html_text(page: &str) -> String {
    let mut words = String::new();
    let mut rest = page;
    while let Some(open) = rest.find('<') {
        push_words(&mut words, &rest[..open]);
        rest = skip_element(&rest[open..]);
    }
    push_words(&mut words, rest);
    match words.is_empty() {
        true => "an HTML page without text".to_owned(),
        false => format!("an HTML page: {words}"),
    }
}

/// Steps over one tag, and over everything inside when it is a script or a style.
fn skip_element(text: &str) -> &str {
    let after = |text: &str, at: Option<usize>| at.map_or(text.len(), |at| at + 1);
    for hidden in ["script", "style"] {
        let is_hidden = text.get(1..=hidden.len()).is_some_and(|n| n.eq_ignore_ascii_case(hidden));
        if is_hidden {
            let lower = text.to_ascii_lowercase();
            let close = lower.find(&format!("</{hidden}")).unwrap_or(text.len());
            let rest = &text[close..];
            return &rest[after(rest, rest.find('>'))..];
        }
    }
    &text[after(text, text.find('>'))..]
}

fn push_words(out: &mut String, text: &str) {
    for word in text.split_whitespace() {
        if out.len() > MAX_MESSAGE_CHARS {
            return;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, message: &str, codes: &[&str]) {
        let read = ErrorBody::read(body.as_bytes());
        assert_eq!((read.message.as_str(), &read.codes[..]), (message, &owned(codes)[..]));
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn the_message_is_found_in_every_known_shape() {
        check(r#"{"type":"error","error":{"type":"t","message":"m"}}"#, "m", &["t"]);
        check(r#"{"error":{"message":"m","type":"t","code":"c"}}"#, "m", &["t", "c"]);
        check(r#"{"error":{"message":"m","code":400}}"#, "m", &["400"]);
        check(r#"[{"error":{"code":429,"message":"m","status":"S"}}]"#, "m", &["429", "S"]);
        check(r#"{"object":"error","message":"m","type":"t","code":"3051"}"#, "m", &["t", "3051"]);
        check(r#"{"code":"invalid-argument","error":"m"}"#, "m", &["invalid-argument"]);
        check(r#"{"error":"m"}"#, "m", &[]);
        check("{\n \"odd\": 1\n}", r#"{"odd":1}"#, &[]);
        check(r#"{"detail":"m"}"#, "m", &[]);
        check(r#"{"detail":[{"loc":["body"],"msg":"a"},{"msg":"b"}]}"#, "a; b", &[]);
        check("\n plain words\nmore", "plain words", &[]);
        check("", "", &[]);
    }

    #[test]
    fn an_upstream_message_is_shown_beside_the_gateways_own() {
        let body = r#"{"error":{"code":429,"message":"Provider returned error",
            "metadata":{"provider_name":"G","raw":"limited upstream"}}}"#;
        check(body, "Provider returned error: limited upstream", &["429"]);
    }

    #[test]
    fn a_page_is_reduced_to_its_words() {
        let page = "<!DOCTYPE html><html><head><style>p{color:red}</style><title>Oh</title>\
                    <SCRIPT>var a = '<b>';</SCRIPT></head><body><h1>502  Bad\nGateway</h1>";
        assert_eq!(ErrorBody::read(page.as_bytes()).message, "an HTML page: Oh 502 Bad Gateway");
        check("<html></html>", "an HTML page without text", &[]);
        check("<html>caf\u{e9} <", "an HTML page: caf\u{e9}", &[]);
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        assert_eq!(bounded("éé", 2), "éé");
        assert_eq!(bounded("ééé", 2), "éé… (shortened)");
    }

    #[test]
    fn bytes_that_are_not_text_do_not_stop_the_report() {
        assert_eq!(ErrorBody::read(b"\xff\xfe oh").message, "\u{fffd}\u{fffd} oh");
    }
}
