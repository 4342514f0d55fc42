//! What becomes of calls that a dead program left without a result.
//!
//! Nothing is repeated that could do harm twice: a call that never began says so, one that finished keeps
//! its result, and of one that began nobody knows the end. The model is told what can be seen, and looks
//! before it does anything again.

use super::record::{How, Intended};
use super::reduce::CallState;

/// What is to be done about one call.
#[derive(Debug, Clone, PartialEq)]
pub enum Remedy {
    /// Its result is on record and is used.
    Recorded,
    /// It did not begin; the model is told.
    NotStarted,
    /// It began, and changes nothing however often it runs: it runs again.
    Again,
    /// It began, and nobody knows how far it came: the model is told what there is to see.
    Unknown {
        /// What it was to make of files.
        intended: Vec<Intended>,
    },
}

/// What is known about the tool of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeatable {
    /// It changes nothing.
    pub is_read_only: bool,
    /// It says of itself that it may be repeated.
    pub is_safe: bool,
}

/// What is to be done about a call that came this far.
pub fn remedy(state: &CallState, tool: Repeatable) -> Remedy {
    match state {
        CallState::Finished { .. } => Remedy::Recorded,
        CallState::Decided => Remedy::NotStarted,
        CallState::Started { .. } if tool.is_read_only && tool.is_safe => Remedy::Again,
        CallState::Started { intended } => Remedy::Unknown { intended: intended.clone() },
    }
}

impl Remedy {
    /// How the record says that the call came to its result.
    pub fn how(&self) -> How {
        match self {
            Self::Recorded | Self::Again => How::Ran,
            Self::NotStarted => How::NotStarted,
            Self::Unknown { .. } => How::Unknown,
        }
    }
}

/// What the model reads about a call that never began.
pub const NOT_STARTED: &str =
    "Not run: the program ended before this call started. Nothing of it happened.";

/// What a file is, compared with what a call was to make of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// As the call would have left it.
    Done,
    /// As it was before the call.
    NotDone,
    /// Neither: something else wrote it too.
    Neither,
    /// It could not be looked at.
    Unseen,
}

/// Compares a file with what was intended. `now` is its SHA-256, nothing inside where there is no file,
/// nothing at all where it could not be looked at.
pub fn compare(intended: &Intended, now: Option<&Option<String>>) -> Seen {
    match now {
        None => Seen::Unseen,
        // A change that changes nothing is done as soon as it is not begun.
        Some(now) if *now == intended.after => Seen::Done,
        Some(now) if *now == intended.before => Seen::NotDone,
        Some(_) => Seen::Neither,
    }
}

/// What can be seen of a call whose end nobody knows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Traces {
    /// The files it was to change.
    pub files: Vec<(String, Seen)>,
    /// What git says about the work tree, in a line.
    pub git: Option<String>,
    /// Processes of the session that still run: their ids and command lines. Nothing where that cannot be
    /// found out.
    pub processes: Option<Vec<(u32, String)>>,
}

/// What the model reads about a call that began and whose end nobody knows.
pub fn unknown(tool: &str, traces: &Traces) -> String {
    let mut text = format!(
        "Unknown outcome: the program ended while this {tool} call ran. It may have happened in full, in part \
         or not at all. It was not repeated. Look before you do it again."
    );
    for (path, seen) in &traces.files {
        text.push_str(match seen {
            Seen::Done => "\n- the file is as the call would have left it: ",
            Seen::NotDone => "\n- the file is as it was before the call: ",
            Seen::Neither => {
                "\n- the file is neither as before nor as the call would have left it: "
            }
            Seen::Unseen => "\n- the file could not be looked at: ",
        });
        text.push_str(path);
    }
    if let Some(git) = &traces.git {
        text.push_str("\n- git: ");
        text.push_str(git);
    }
    match traces.processes.as_deref() {
        Some([]) => text.push_str("\n- no process of this session runs any more"),
        Some(processes) => {
            for (id, command) in processes {
                text.push_str(&format!("\n- still running: process {id}, {command}"));
            }
        }
        None => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm::ContentBlock;

    const NOT: Repeatable = Repeatable { is_read_only: false, is_safe: false };

    fn started() -> CallState {
        CallState::Started { intended: Vec::new() }
    }

    #[test]
    fn only_what_changes_nothing_and_says_so_runs_again() {
        for (is_read_only, is_safe) in [(false, false), (true, false), (false, true)] {
            let tool = Repeatable { is_read_only, is_safe };
            let unknown = Remedy::Unknown { intended: Vec::new() };
            assert_eq!(remedy(&started(), tool), unknown, "{tool:?}");
        }
        let safe = Repeatable { is_read_only: true, is_safe: true };
        assert_eq!(remedy(&started(), safe), Remedy::Again);
        // What never began has nothing to repeat, however safe it is.
        assert_eq!(remedy(&CallState::Decided, safe), Remedy::NotStarted);
    }

    #[test]
    fn a_recorded_result_is_used() {
        let result = ContentBlock::tool_result("a", "x", false);
        let finished = CallState::Finished { result, how: How::Ran };
        assert_eq!(remedy(&finished, NOT), Remedy::Recorded);
    }

    #[test]
    fn a_file_is_compared_with_before_and_after() {
        let hash = |text: &str| Some(text.to_owned());
        let intended = Intended { path: "/f".into(), before: hash("a"), after: hash("b") };
        assert_eq!(compare(&intended, Some(&hash("b"))), Seen::Done);
        assert_eq!(compare(&intended, Some(&hash("a"))), Seen::NotDone);
        assert_eq!(compare(&intended, Some(&hash("c"))), Seen::Neither);
        assert_eq!(compare(&intended, Some(&None)), Seen::Neither);
        assert_eq!(compare(&intended, None), Seen::Unseen);
        let new = Intended { before: None, ..intended };
        assert_eq!(compare(&new, Some(&None)), Seen::NotDone);
    }

    #[test]
    fn the_model_is_told_what_there_is_to_see_and_not_to_repeat_it_blindly() {
        let traces = Traces {
            files: vec![("/w/a".into(), Seen::Done), ("/w/b".into(), Seen::NotDone)],
            git: Some("1 changed file".into()),
            processes: Some(vec![(7, "sleep 60".into())]),
        };
        let told = unknown("bash", &traces);
        for part in ["Look before", "left it: /w/a", "before the call: /w/b", "process 7, sleep 60"]
        {
            assert!(told.contains(part), "{told}");
        }
        let quiet = unknown("bash", &Traces { processes: Some(Vec::new()), ..Traces::default() });
        assert!(quiet.ends_with("no process of this session runs any more"), "{quiet}");
    }
}
