//! Sessions as a list: first prompt, age, model, cost.

use std::path::Path;
use std::time::SystemTime;

use agent::session::journal::load;
use agent::session::store::Entry;
use agent::{paste, sanitize};
use serde_json::{Value, json};

use super::{dollars, line, one_line, short};
use crate::args::OutputFormat;
use crate::render::style::fit;
use crate::{redaction, terminal};

/// The largest file that is read for its cost in a list, in bytes.
const READ_FOR_COST: u64 = 8 << 20;

/// The most sessions in a list that is read by a person.
const LISTED: usize = 20;

/// The most characters of a first prompt in a list.
const EXCERPT: usize = 60;

/// The list of `entries`, the sessions of `cwd`, for a person or a program.
pub(super) fn list(entries: &[Entry], cwd: &Path, format: OutputFormat) -> String {
    if format != OutputFormat::Text {
        let all: Vec<Value> = entries.iter().map(object).collect();
        let document = json!({ "cwd": cwd.to_string_lossy(), "sessions": all });
        return sanitize::json(&format!("{document}\n")).into_string();
    }
    // One that was begun and left again says nothing to a person.
    let entries: Vec<&Entry> = entries.iter().filter(|entry| !entry.is_unused).collect();
    if entries.is_empty() {
        return format!("No session was kept in {} yet.\n", one_line(&cwd.to_string_lossy()));
    }
    let columns = terminal::columns().unwrap_or(usize::MAX);
    let mut text = String::new();
    for entry in entries.iter().take(LISTED) {
        let short = short(&entry.id);
        let cost = dollars(cost(entry));
        let model = one_line(entry.model.as_deref().unwrap_or("n/a"));
        let prompt = match &entry.first_prompt {
            // Of a long paste the beginning is known, and not its end.
            Some(prompt) => {
                let prompt = paste::chips(prompt, &mut 0).replace(paste::MARK, "");
                one_line(&prompt.chars().take(EXCERPT).collect::<String>())
            }
            None => "(what was asked cannot be read)".to_owned(),
        };
        line(&mut text, &row([&short, &age(entry.modified), &cost, &model, &prompt], columns));
    }
    if entries.len() > LISTED {
        line(
            &mut text,
            &format!("and {} more: --output-format json lists all", entries.len() - LISTED),
        );
    }
    line(&mut text, "\nContinue one: anvil -r ID\nor the last one: anvil -c");
    text
}

/// A row of the list in so many columns. By its prompt a session is known, so that stays longest.
fn row([short, age, cost, model, prompt]: [&str; 5], columns: usize) -> String {
    let mut row = format!("{short}  {age:>8}  ");
    for (part, room_wanted) in [(format!("{cost:>9}  "), 60), (format!("{model}  "), 80)] {
        if columns >= room_wanted {
            row.push_str(&part);
        }
    }
    row.push_str(prompt);
    fit(&sanitize::one_line(&row), columns).into_string()
}

fn object(entry: &Entry) -> Value {
    let seconds = |time: SystemTime| {
        time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
    };
    json!({
        "id": entry.id,
        "first_prompt": entry.first_prompt.as_deref().map(first_prompt),
        "model": entry.model,
        "modified": seconds(entry.modified),
        "size": entry.size,
        "cost_usd": cost(entry),
        // Not every path is a text; the id finds the session all the same.
        "path": entry.path.to_string_lossy(),
    })
}

fn first_prompt(kept: &str) -> String {
    redaction::clean(&kept.replace(paste::MARK, "")).into_owned()
}

fn cost(entry: &Entry) -> Option<f64> {
    if entry.size > READ_FOR_COST {
        return None;
    }
    load(&entry.path).ok()?.state.cost_usd()
}

/// How long ago, in one unit. A time that has not come yet is now.
fn age(modified: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(modified).unwrap_or_default().as_secs();
    match seconds {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_narrow_list_keeps_what_a_session_is_known_by() {
        let row = |columns| row(["3f2a", "2 h", "$0.0100", "p:model", "fix the parser"], columns);
        assert_eq!(row(80), "3f2a       2 h    $0.0100  p:model  fix the parser");
        assert_eq!(row(70), "3f2a       2 h    $0.0100  fix the parser");
        assert_eq!(row(40), "3f2a       2 h  fix the parser");
        assert_eq!(row(24), "3f2a       2 h  fix the…");
    }

    #[test]
    fn an_age_is_never_negative() {
        let ago = |seconds| age(SystemTime::now() - Duration::from_secs(seconds));
        assert_eq!(
            [ago(0), ago(120), ago(7_300), ago(200_000)],
            ["just now", "2 min", "2 h", "2 days"]
        );
        assert_eq!(age(SystemTime::now() + Duration::from_secs(9_999)), "just now");
    }
}
