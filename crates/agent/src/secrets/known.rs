//! Which values are secrets: by the names they go by and by how they look.

use serde_json::Value;

/// Shortest value that is looked for; a shorter one is found in any text.
const MIN_CHARS: usize = 8;

/// Shortest value of letters alone that is no word of ours or somebody's.
const MIN_LETTERS: usize = 12;

/// Shortest value of digits alone that is no year, port or size.
const MIN_DIGITS: usize = 12;

/// Words in a name that make its value a secret.
const SECRET_WORDS: &[&str] = &[
    "APIKEY",
    "AUTH",
    "AUTHORIZATION",
    "COOKIE",
    "CREDENTIAL",
    "CREDENTIALS",
    "DSN",
    "KEY",
    "KEYS",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PASSWORDS",
    "PAT",
    "PRIVATE",
    "PWD",
    "SALT",
    "SECRET",
    "SECRETS",
    "SIGNING",
    "TOKEN",
    "TOKENS",
];

/// Values that stand in for something and are no secret, although their names say so.
const COMMON: &[&str] = &[
    "changeme",
    "change-me",
    "change_me",
    "disabled",
    "enabled",
    "example",
    "localhost",
    "password",
    "passwort",
    "placeholder",
    "undefined",
    "none",
];

/// Whether the name of a variable says that its value is a secret.
pub fn names_a_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let mut words = upper.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| {
        SECRET_WORDS.contains(&word)
            // GITHUBTOKEN, CLIENTSECRET, DBPASSWORD
            || ["TOKEN", "SECRET", "PASSWORD", "APIKEY"].iter().any(|end| word.ends_with(end))
    })
}

/// Whether a value can be told from ordinary text, so that hiding it hides nothing else.
pub fn is_worth_hiding(value: &str) -> bool {
    let chars = value.chars().count();
    let mut seen: Vec<char> = Vec::with_capacity(8);
    for c in value.chars() {
        if !seen.contains(&c) {
            seen.push(c);
        }
        if seen.len() > 3 {
            break;
        }
    }
    chars >= MIN_CHARS && seen.len() > 3 && !is_common(value, chars) && !is_path(value)
}

/// What of a variable's value is secret, if anything: all of it where the name says so or where it looks
/// random, the password of an address, nothing of the rest.
pub fn secret_in(name: &str, value: &str) -> Option<String> {
    let value = value.trim();
    if let Some(password) = password_of_address(value) {
        return Some(password.to_owned()).filter(|password| is_worth_hiding(password));
    }
    let is_address = value.contains("://");
    let is_secret = !is_address && (names_a_secret(name) || is_random(value));
    (is_secret && is_worth_hiding(value)).then(|| value.to_owned())
}

/// The secrets among variables, each under its name.
pub fn secrets_among<'v>(
    variables: impl IntoIterator<Item = (&'v str, &'v str)>,
) -> Vec<(String, String)> {
    let secret = |(name, value)| Some((str::to_owned(name), secret_in(name, value)?));
    variables.into_iter().filter_map(secret).collect()
}

/// The variables of a file of lines `NAME=value`, as shells and most programs read it: with or without
/// `export`, the value bare or in quotes, over several lines in double ones.
pub fn variables_in(text: &str) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        rest = after;
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let Some((name, value)) = assigned(line).filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let (name, value) = (name.trim().trim_matches(['"', '\'']), value.trim_start());
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let value = match quote {
            Some(quote) => match value[1..].split_once(quote) {
                Some((inner, _)) => inner.to_owned(),
                // The quote is closed on a later line.
                None => {
                    let Some((inner, after)) = rest.split_once(quote) else { continue };
                    rest = after;
                    format!("{}\n{inner}", &value[1..])
                }
            },
            None => {
                value.split(" #").next().unwrap_or_default().trim_end_matches([',', ' ']).to_owned()
            }
        };
        variables.push((name.to_owned(), value));
    }
    variables
}

/// A name and its value, with `=` or `: ` between them, whichever comes first.
fn assigned(line: &str) -> Option<(&str, &str)> {
    let equals = line.find('=');
    match line.find(": ").filter(|colon| equals.is_none_or(|equals| *colon < equals)) {
        Some(colon) => Some((&line[..colon], &line[colon + 2..])),
        None => line.split_once('='),
    }
}

/// The texts in a JSON value, each with the name of the field that holds it.
pub fn variables_in_json(value: &Value) -> Vec<(String, String)> {
    fn walk(name: &str, value: &Value, found: &mut Vec<(String, String)>) {
        match value {
            Value::String(text) => found.push((name.to_owned(), text.clone())),
            Value::Array(items) => items.iter().for_each(|item| walk(name, item, found)),
            Value::Object(fields) => {
                fields.iter().for_each(|(name, value)| walk(name, value, found))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = Vec::new();
    walk("", value, &mut found);
    found
}

/// What stands after each word `password` or on a line that is an address, as in `.netrc` and
/// `.git-credentials`; `name` is what it goes by.
pub fn passwords_in(name: &str, text: &str) -> Vec<(String, String)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let after = words.windows(2).filter(|pair| pair[0] == "password").map(|pair| pair[1]);
    let in_addresses = words.iter().filter_map(|word| password_of_address(word));
    after.chain(in_addresses).map(|password| (name.to_owned(), password.to_owned())).collect()
}

/// The password in `scheme://user:password@host`.
fn password_of_address(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    Some(password)
}

/// Letters and digits mixed, long and without blanks: nobody calls anything like that.
fn is_random(value: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
    let longest_run = value.split(|c: char| !c.is_ascii_alphanumeric()).map(str::len).max();
    value.len() >= 20
        && !value.contains(char::is_whitespace)
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && longest_run >= Some(16)
}

fn is_common(value: &str, chars: usize) -> bool {
    let lower = value.to_lowercase();
    let is_wordy = |c: char| c.is_alphabetic() || matches!(c, '-' | '_' | '.' | ' ');
    COMMON.contains(&lower.as_str())
        || (chars < MIN_LETTERS && value.chars().all(is_wordy))
        || (chars < MIN_DIGITS && value.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// A path by its looks. A random text may begin with a slash too.
fn is_path(value: &str) -> bool {
    let starts = ["/", "~/", "./", "../"].iter().any(|start| value.starts_with(start));
    starts && !value.split('/').any(is_random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, want: Option<&str>) {
        assert_eq!(secret_in(name, value).as_deref(), want, "{name}={value}");
    }

    #[test]
    fn a_name_says_that_its_value_is_a_secret() {
        for name in
            ["GITHUB_TOKEN", "my.api-key", "AWS_SECRET_ACCESS_KEY", "DB_PASS", "clientSecret"]
        {
            assert!(names_a_secret(name), "{name}");
        }
        for name in ["KEYBOARD", "TOKENIZERS_PARALLELISM", "PATH", "COMPASS", "MONKEY_COUNT"] {
            assert!(!names_a_secret(name), "{name}");
        }
    }

    #[test]
    fn short_common_and_path_like_values_are_left_alone() {
        for value in [
            "short7!",
            "true",
            "00000000",
            "20261130",
            "production",
            "change-me",
            "/run/user/1000/agent.sock",
            "~/.ssh/id_ed25519",
            "not-needed",
        ] {
            check("API_KEY", value, None);
        }
    }

    #[test]
    fn a_value_is_secret_by_its_name_or_by_its_looks() {
        check("API_KEY", "hunter2hunter2", Some("hunter2hunter2"));
        check("WHATEVER", "hunter2hunter2", None);
        let random = "9f86d081884c7d659a2feaa0c55ad015";
        check("WHATEVER", random, Some(random));
        check("AWS_DEFAULT_REGION", "eu-central-1", None);
        check(
            "AWS_SECRET_ACCESS_KEY",
            "/k7MDENGbPxRfiCYEXAMPLEKEY1",
            Some("/k7MDENGbPxRfiCYEXAMPLEKEY1"),
        );
    }

    #[test]
    fn of_an_address_only_the_password_is_secret() {
        check("DATABASE_URL", "postgres://app:s3cr3t-pw@db:5432/app", Some("s3cr3t-pw"));
        check("API_KEY_URL", "https://example.com/keys", None);
        check("HTTPS_PROXY", "http://proxy:3128", None);
    }

    #[test]
    fn credentials_are_read_in_the_forms_of_their_programs() {
        let json = serde_json::json!({"auths": {"h": {"auth": "dXNlcjpwYXNz"}}, "list": ["a"]});
        assert_eq!(
            variables_in_json(&json),
            [("auth".to_owned(), "dXNlcjpwYXNz".to_owned()), ("list".to_owned(), "a".to_owned())]
        );
        let text = "machine h login u password one-pass\nhttps://u:two-pass@h\n";
        let found: Vec<String> = passwords_in("f", text).into_iter().map(|(_, v)| v).collect();
        assert_eq!(found, ["one-pass", "two-pass"]);
    }

    #[test]
    fn a_file_of_variables_is_read_as_programs_read_it() {
        let text = "# c\nA=1 # one\nexport B='two # 2'\nC=\"three\nlines\" \nnothing\nD: four\n\"e\": \"5\",\n";
        let read = variables_in(text);
        let read: Vec<(&str, &str)> = read.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(
            read,
            [("A", "1"), ("B", "two # 2"), ("C", "three\nlines"), ("D", "four"), ("e", "5")]
        );
    }
}
