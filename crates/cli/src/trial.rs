//! `anvil models test NAME`: what a model can do, found out by asking it.

use std::fmt::Write as _;

use llm::conformance::{Report, conformance};

use crate::app::Trial;
use crate::exit::Exit;
use crate::headless;

/// Tries the model and prints what works; failed unless everything does that an agent needs.
pub(crate) async fn run(trial: Trial) -> Exit {
    let report = conformance(trial.provider, &trial.id).await;
    // Only now: a local server loads a model when it is first asked for it.
    let context = trial.models.loaded_context(&trial.named).await;
    match headless::print(&page(&trial.label, &report, context)) {
        Exit::Done if !report.is_good() => Exit::Failed,
        exit => exit,
    }
}

fn page(label: &str, report: &Report, context: Option<u64>) -> String {
    let mut page = format!("{label}\n");
    let mut line = |name: &str, what: &str| {
        writeln!(page, "  {name:<10}  {what}").expect("a text takes everything");
    };
    for (scenario, verdict) in &report.verdicts {
        line(scenario.name(), &verdict.to_string());
    }
    match context {
        Some(tokens) => line("context", &format!("{tokens} tokens are loaded")),
        None => line("context", "n/a"),
    }
    page
}

#[cfg(test)]
mod tests {
    use llm::conformance::{Scenario, Verdict};

    use super::*;

    #[test]
    fn each_ability_is_a_line() {
        let verdicts = vec![
            (Scenario::Text, Verdict::Passed),
            (Scenario::Tools, Verdict::Failed("no call came".to_owned())),
            (Scenario::RoundTrip, Verdict::Skipped("there is no call to answer")),
            (Scenario::Parallel, Verdict::Soft("it makes one call at a time".to_owned())),
        ];
        let page = page("p:m", &Report { verdicts }, Some(4096));
        assert_eq!(
            page,
            "p:m\n  text        ok\n  tools       FAILED: no call came\n  \
             round trip  not tried: there is no call to answer\n  \
             parallel    no: it makes one call at a time\n  context     4096 tokens are loaded\n"
        );
    }
}
