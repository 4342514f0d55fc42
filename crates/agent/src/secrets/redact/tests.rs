//! Every form of a secret at every cut, and ordinary text unchanged.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use proptest::prelude::*;

use super::*;

/// Special in every notation, and with a character of three bytes.
const AWKWARD: &str = "p'4$\"w/0 rd\\§+ü€?x";
const PLAIN: &str = "q7Rk2mZp9LxVb4Tn";

fn redactor(secrets: &[(&str, &str)]) -> Arc<Redactor> {
    Arc::new(Redactor::new(secrets.iter().copied()))
}

fn known(value: &str) -> Arc<Redactor> {
    redactor(&[("NAME", value)])
}

#[track_caller]
fn check(redactor: &Redactor, text: &str, want: &str) {
    assert_eq!(redactor.redact(text), want, "{text}");
}

/// The text in two pieces cut at every place, and byte by byte.
#[track_caller]
fn check_cuts(redactor: &Arc<Redactor>, text: &[u8], want: &[u8]) {
    for cut in 0..=text.len() {
        let (mut stream, mut out) = (redactor.stream(), Vec::new());
        stream.push(&text[..cut], &mut out);
        stream.push(&text[cut..], &mut out);
        stream.finish(&mut out);
        assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(want), "cut at {cut}");
    }
    let (mut stream, mut out) = (redactor.stream(), Vec::new());
    for byte in text {
        stream.push(&[*byte], &mut out);
    }
    stream.finish(&mut out);
    assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(want), "byte by byte");
}

#[test]
fn a_value_gives_way_to_its_name() {
    let redactor = redactor(&[("A_KEY", PLAIN), ("OTHER", "other-secret-1")]);
    check(
        &redactor,
        "a q7Rk2mZp9LxVb4Tn b other-secret-1",
        "a «redacted:A_KEY» b «redacted:OTHER»",
    );
    check(&redactor, "nothing here", "nothing here");
    assert!(matches!(redactor.redact("nothing here"), Cow::Borrowed(_)));
}

#[test]
fn every_form_of_a_value_is_found_at_every_cut() {
    for value in [AWKWARD, PLAIN] {
        let redactor = known(value);
        let forms = forms::of(value);
        assert!(forms.len() >= 7, "{}", forms.len());
        for form in forms {
            let text = [b"before ", form.as_slice(), b" after"].concat();
            check_cuts(&redactor, &text, "before «redacted:NAME» after".as_bytes());
        }
    }
}

#[test]
fn the_forms_are_those_that_programs_write() {
    let redactor = known(AWKWARD);
    for form in [
        serde_json::to_string(AWKWARD).unwrap(),
        serde_json::to_string(&format!("key={AWKWARD};")).unwrap(),
        "p'4$\\\"w\\/0 rd\\\\\\u00a7+\\u00fc\\u20ac?x".to_owned(),
        "p%274%24%22w%2F0%20rd%5C%C2%A7%2B%C3%BC%E2%82%AC%3Fx".to_owned(),
        "p%274%24%22w%2f0+rd%5c%c2%a7%2b%c3%bc%e2%82%ac%3fx".to_owned(),
        "'p'\\''4$\"w/0 rd\\§+ü€?x'".to_owned(),
        "p\\'4\\$\\\"w/0\\ rd\\\\§+ü€\\?x".to_owned(),
        AWKWARD.chars().rev().collect(),
    ] {
        let text = redactor.redact(&form);
        assert!(text.contains("«redacted:NAME»"), "{form}: {text}");
        assert!(!text.contains("rd"), "{form}: {text}");
    }
}

#[test]
fn base64_is_found_wherever_the_value_lies_in_what_was_encoded() {
    for value in [AWKWARD, PLAIN, "8-Chars!"] {
        let redactor = known(value);
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "z", "yz", "\n"] {
                let bytes = format!("{before}{value}{after}");
                for encoded in [STANDARD.encode(&bytes), URL_SAFE.encode(&bytes)] {
                    let text = redactor.redact(&encoded);
                    assert!(text.contains("«redacted:NAME»"), "{before}|{after}: {encoded}");
                }
            }
        }
    }
}

#[test]
fn each_line_of_a_value_of_several_lines_is_a_secret() {
    let redactor = known("-----BEGIN X-----\nfirst-line-0001\nsecond-line-02\n-----END X-----");
    check(&redactor, "see first-line-0001!", "see «redacted:NAME»!");
    check(&redactor, "-----BEGIN X-----", "-----BEGIN X-----");
    check(
        &redactor,
        "     1\tfirst-line-0001\n     2\tsecond-line-02\n",
        "     1\t«redacted:NAME»\n     2\t«redacted:NAME»\n",
    );
}

#[test]
fn a_long_value_goes_as_a_whole() {
    let value: String = (0..3000u32).map(|n| char::from(b'a' + (n * n % 26) as u8)).collect();
    let redactor = known(&value);
    check(&redactor, &format!("<{value}>"), "<«redacted:NAME»>");
    let (mut stream, mut out) = (redactor.stream(), Vec::new());
    for piece in format!("<{value}>").as_bytes().chunks(7) {
        stream.push(piece, &mut out);
        assert!(stream.held.len() <= MAX_HELD);
    }
    stream.finish(&mut out);
    assert!(!String::from_utf8(out).unwrap().contains(&value[1000..1010]));
}

#[test]
fn what_overlaps_goes_together() {
    let redactor =
        redactor(&[("A", "abcdefgh1234"), ("B", "1234ijklmnop"), ("C", "abcdefgh1234ijkl-")]);
    check(&redactor, "<abcdefgh1234ijklmnop>", "<«redacted:A»>");
    check_cuts(&redactor, b"<abcdefgh1234ijklmnop>", "<«redacted:A»>".as_bytes());
    check_cuts(&redactor, b"<abcdefgh1234ijkl->", "<«redacted:C»>".as_bytes());
}

#[test]
fn a_marker_is_not_taken_for_a_secret() {
    let redactor = redactor(&[("MY_PASSWORD_1", "MY_PASSWORD_1"), ("K", PLAIN)]);
    let once = redactor.redact(PLAIN).into_owned();
    assert_eq!(once, "«redacted:K»");
    check(&redactor, &once, &once);
    check(&redactor, "MY_PASSWORD_1", "MY_PASSWORD_1");
    let odd = Redactor::new([("a»\nb", PLAIN)]);
    check(&odd, PLAIN, "«redacted:ab»");
}

#[test]
fn shapes_are_hidden_without_being_known() {
    let redactor = Arc::new(Redactor::default());
    let letters = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5";
    for (secret, name) in [
        ("sk-test-0123456789abcdef0123".to_owned(), "api-key"),
        (format!("sk-proj-{letters}_{letters}"), "api-key"),
        (format!("ghp_{letters}"), "token"),
        (format!("github_pat_11ABC_{letters}"), "token"),
        ("AKIAIOSFODNN7EXAMPLE".to_owned(), "access-key"),
        (format!("AIza{}", &letters[..35]), "api-key"),
        ("xoxb-123456789012-abcdef".to_owned(), "token"),
        ("glpat-abcDEF123456_7890xyz".to_owned(), "token"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN".to_owned(), "signed-token"),
    ] {
        let text = format!("x={secret}; y");
        let want = format!("x=«redacted:{name}»; y");
        check_cuts(&redactor, text.as_bytes(), want.as_bytes());
        check(&redactor, &format!("\"{secret}\""), &format!("\"«redacted:{name}»\""));
    }
}

#[test]
fn what_only_resembles_a_shape_stays() {
    let redactor = Arc::new(Redactor::default());
    for text in [
        "task-management-system-for-people-2024",
        ".sk-folding-cube-item-4-rotated",
        "AKIA",
        "ghp_short",
        "eyJhbGciOi.not.a-token",
        "-----BEGIN PRIVATE KEY-----\\n and then prose about keys, which goes on for a while and means nothing",
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQmFzZTY0LWVuY29kZWQtZGF0YQ==\n-----END CERTIFICATE-----",
    ] {
        check(&redactor, text, text);
        check_cuts(&redactor, text.as_bytes(), text.as_bytes());
    }
}

#[test]
fn a_private_key_goes_from_its_first_line_to_its_last() {
    let redactor = Arc::new(Redactor::default());
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    for (between, body) in [("\n", 26), ("\\n", 26), ("\n     7\t", 26), ("\n", 100)] {
        let body = vec![line; body].join(between);
        let text = format!(
            "a -----BEGIN RSA PRIVATE KEY-----{between}{body}{between}-----END RSA PRIVATE KEY----- b"
        );
        check(&redactor, &text, "a «redacted:private-key» b");
        for size in [1, 7, 64, 1000, 5000] {
            let (mut stream, mut out) = (redactor.stream(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                stream.push(piece, &mut out);
                assert!(stream.held.len() <= MAX_HELD);
            }
            stream.finish(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), "a «redacted:private-key» b", "{size}");
        }
    }
}

#[test]
fn a_private_key_without_an_end_takes_a_bounded_part_along() {
    let redactor = Redactor::default();
    let text = format!(
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n{}",
        "prose € ".repeat(2000)
    );
    let redacted = redactor.redact(&text);
    assert!(redacted.starts_with("«redacted:private-key»"), "{}", &redacted[..100]);
    assert!(redacted.ends_with("prose € prose € "));
}

#[test]
fn what_cannot_become_a_secret_is_given_out_at_once() {
    let redactor = known(PLAIN);
    let mut stream = redactor.stream();
    assert_eq!(stream.push_str("an ordinary line\n"), "an ordinary line\n");
    assert_eq!(stream.push_str("so far q7Rk"), "so far ");
    assert_eq!(stream.push_str("2 no"), "q7Rk2 no");
    assert_eq!(stream.push_str(" q7Rk2mZp9LxVb4T"), " ");
    assert!(stream.is_holding());
    assert_eq!(stream.finish_str(), "q7Rk2mZp9LxVb4T");
    assert!(!stream.is_holding());
}

#[test]
fn a_secret_that_was_cut_by_a_gap_leaves_no_half() {
    let redactor = known(PLAIN);
    for cut in 1..PLAIN.len() {
        let head = format!("head {}", &PLAIN[..cut]);
        let tail = format!("{} tail", &PLAIN[cut..]);
        let (head, tail) = redactor.without_cut_edges(&head, &tail);
        assert_eq!((head, tail), ("head ", " tail"), "{cut}");
    }
    let whole = format!("{PLAIN} x");
    let (_, tail) = redactor.without_cut_edges("a", &whole);
    assert_eq!(tail, " x", "a whole one that begins like the end of another form is not cut into");
}

#[test]
fn the_texts_in_a_json_value_are_redacted_and_nothing_else() {
    let redactor = known(PLAIN);
    let value = serde_json::json!({"a": [PLAIN, 1, null], PLAIN: {"b": format!("<{PLAIN}>")}});
    assert_eq!(
        redactor.redact_json(&value),
        serde_json::json!({
            "a": ["«redacted:NAME»", 1, null], "«redacted:NAME»": {"b": "<«redacted:NAME»>"}
        })
    );
}

#[test]
fn values_are_asked_for_when_they_are_first_needed() {
    let (asked, was_asked) = std::sync::mpsc::channel();
    let redactor = Redactor::lazy(move || {
        asked.send(()).unwrap();
        vec![("K".to_owned(), PLAIN.to_owned())]
    });
    assert!(was_asked.try_recv().is_err());
    check(&redactor, PLAIN, "«redacted:K»");
    check(&redactor, PLAIN, "«redacted:K»");
    assert_eq!(was_asked.iter().count(), 1);
}

proptest! {
    #[test]
    fn no_form_of_a_secret_survives_however_the_text_is_cut(
        secret in "[ -~§ü€]{12,60}",
        around in proptest::collection::vec("[ -~\n§ü€]{0,30}", 1..5),
        pick in any::<prop::sample::Index>(),
        sizes in proptest::collection::vec(1usize..20, 1..10),
    ) {
        prop_assume!(is_worth_hiding(&secret));
        let redactor = known(&secret);
        let forms: Vec<Vec<u8>> = forms::of(&secret).into_iter().collect();
        let form = &forms[pick.index(forms.len())];
        let text = around.join(&String::from_utf8(form.clone()).unwrap());
        let whole = redactor.redact(&text).into_owned();
        let (mut stream, mut out) = (redactor.stream(), Vec::new());
        let (mut rest, mut size) = (text.as_bytes(), sizes.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*size.next().unwrap()));
            stream.push(piece, &mut out);
            rest = after;
        }
        stream.finish(&mut out);
        prop_assert_eq!(&String::from_utf8(out).unwrap(), &whole);
        for form in &forms {
            let survives = memchr::memmem::find(whole.as_bytes(), form).is_some();
            prop_assert!(!survives, "{:?} in {whole:?}", String::from_utf8_lossy(form));
        }
    }

    #[test]
    fn text_without_secrets_is_left_as_it_is(
        text in "[ -~\n§ü€]{0,300}",
        sizes in proptest::collection::vec(1usize..20, 1..10),
    ) {
        let redactor = known("a secret of 24 characters");
        prop_assert!(matches!(redactor.redact(&text), Cow::Borrowed(_)));
        let (mut stream, mut out) = (redactor.stream(), Vec::new());
        let (mut rest, mut size) = (text.as_bytes(), sizes.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*size.next().unwrap()));
            stream.push(piece, &mut out);
            rest = after;
        }
        stream.finish(&mut out);
        prop_assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}
