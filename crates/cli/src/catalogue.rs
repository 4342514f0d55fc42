//! `anvil models`: who can be asked, whether the key is there, and what is known about each model.

use std::fmt::Write as _;

use llm::Registry;
use llm::models::Price;
use llm::registry::Listed;

/// What stands where nobody told a value.
const UNKNOWN: &str = "n/a";

const HEAD: [&str; 9] =
    ["alias", "model", "context", "output", "in", "out", "cache read", "cache write", "as of"];

/// What is left out of the table where the screen has no room for all of it, in this order.
const LESS: [&[usize]; 5] = [&[8], &[7], &[6], &[3], &[4, 5]];

/// The providers and the models as a page of text; `columns` is how wide the screen is, if it is one.
pub(crate) fn page(registry: &Registry, columns: Option<usize>) -> String {
    let mut page = String::from("providers\n");
    let providers: Vec<[String; 2]> =
        registry.providers().map(|name| keys(registry, name)).collect();
    write_table(&mut page, &providers, &[], &[]);
    page.push_str("\nmodels (prices in USD per million tokens; + means more for long requests)\n");
    let head = HEAD.map(str::to_owned);
    let rows: Vec<[String; 9]> =
        [head].into_iter().chain(registry.catalogue().iter().map(row)).collect();
    let left_out = left_out(&rows, columns.unwrap_or(usize::MAX));
    write_table(&mut page, &rows, &[2, 3, 4, 5, 6, 7], &left_out);
    if !left_out.is_empty() {
        let names: Vec<&str> = left_out.iter().rev().map(|column| HEAD[*column]).collect();
        writeln!(page, "\na wider screen also shows: {}", names.join(", "))
            .expect("a text takes everything");
    }
    page.push_str("\nany other: -m PROVIDER:MODEL-ID; try one with `anvil models test NAME`\n");
    page
}

fn keys(registry: &Registry, name: &str) -> [String; 2] {
    let key = match registry.key_variable(name) {
        Some((variable, true)) => format!("{variable} is set"),
        Some((variable, false)) => format!("{variable} is not set"),
        None => "needs no key".to_owned(),
    };
    [name.to_owned(), key]
}

fn row(model: &Listed) -> [String; 9] {
    let facts = &model.facts;
    let price = facts.price.as_ref();
    let more = if price.is_some_and(|price| price.above.is_some()) { "+" } else { "" };
    let of = |rate: fn(&Price) -> Option<f64>| match price.and_then(rate) {
        Some(rate) => dollars(rate) + more,
        None => UNKNOWN.to_owned(),
    };
    let day = price.and_then(|price| price.as_of.as_deref()).unwrap_or(UNKNOWN);
    [
        model.alias.clone().unwrap_or_default(),
        format!("{}:{}", model.provider, model.id),
        facts.context.map_or(UNKNOWN.into(), thousands),
        facts.max_output.map_or(UNKNOWN.into(), |tokens| thousands(tokens.into())),
        of(|price| Some(price.input)),
        of(|price| Some(price.output)),
        of(|price| price.cache_read),
        of(|price| price.cache_write),
        day.to_owned(),
    ]
}

/// Tokens, rounded as people say them.
fn thousands(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..1_000_000 => format!("{}k", tokens / 1_000),
        _ => format!("{:.2}M", tokens as f64 / 1e6),
    }
}

/// Dollars with the cents, and with what is less than a cent where that is the price.
fn dollars(amount: f64) -> String {
    let exact = amount.to_string();
    let cents = format!("{amount:.2}");
    if exact.len() > cents.len() { exact } else { cents }
}

fn width<const N: usize>(rows: &[[String; N]], column: usize) -> usize {
    rows.iter().map(|row| row[column].len()).max().unwrap_or(0)
}

/// The columns without which the lines are no wider than `most`, or as many as can be spared.
fn left_out<const N: usize>(rows: &[[String; N]], most: usize) -> Vec<usize> {
    let mut left_out = Vec::new();
    let mut all: usize = (0..N).map(|column| 2 + width(rows, column)).sum();
    for columns in LESS {
        if all <= most {
            break;
        }
        for column in columns.iter().rev() {
            all -= 2 + width(rows, *column);
            left_out.push(*column);
        }
    }
    left_out
}

/// Columns as wide as their widest cell; those of `right` end together.
fn write_table<const N: usize>(
    page: &mut String,
    rows: &[[String; N]],
    right: &[usize],
    left_out: &[usize],
) {
    for row in rows {
        let mut line = String::new();
        let cells = row.iter().enumerate().filter(|(column, _)| !left_out.contains(column));
        for (column, cell) in cells {
            let width = width(rows, column);
            let written = match right.contains(&column) {
                true => write!(line, "  {cell:>width$}"),
                false => write!(line, "  {cell:<width$}"),
            };
            written.expect("a text takes everything");
        }
        page.push_str(line.trim_end());
        page.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use llm::registry::Facts;

    use super::*;

    fn listed(facts: Facts) -> Listed {
        Listed { alias: None, provider: "p".into(), id: "m:1".into(), facts }
    }

    #[test]
    fn what_nobody_told_is_said_to_be_unknown() {
        let unknown = listed(Facts { context: None, max_output: None, price: None });
        assert_eq!(row(&unknown), ["", "p:m:1", "n/a", "n/a", "n/a", "n/a", "n/a", "n/a", "n/a"]);
    }

    #[test]
    fn a_narrow_screen_gets_fewer_columns_and_lines_that_fit() {
        let row = ["alias", "p:m", "1.05M", "64k", "4.00", "5.00", "0.10", "0.20", "2026-11-30"];
        let rows = [row.map(str::to_owned)];
        let lines = |most| {
            let mut page = String::new();
            write_table(&mut page, &rows, &[], &left_out(&rows, most));
            page
        };
        assert_eq!(lines(usize::MAX).lines().next().map(str::len), Some(60));
        for (most, end) in [(60, "2026-11-30\n"), (59, "0.20\n"), (40, "5.00\n"), (24, "1.05M\n")] {
            let page = lines(most);
            assert!(page.trim_end().len() <= most && page.ends_with(end), "{most}: {page}");
        }
    }

    #[test]
    fn a_price_shows_its_cents_and_less_and_its_day() {
        let price = Price {
            input: 4.0,
            output: 0.125,
            cache_read: Some(0.0),
            cache_write: None,
            above: None,
            as_of: Some("2026-11-30".into()),
        };
        let known =
            Facts { context: Some(1_050_000), max_output: Some(64_000), price: Some(price) };
        assert_eq!(
            row(&listed(known)),
            ["", "p:m:1", "1.05M", "64k", "4.00", "0.125", "0.00", "n/a", "2026-11-30"]
        );
    }
}
