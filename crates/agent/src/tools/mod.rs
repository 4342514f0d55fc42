//! The built-in tools, in the order the model sees them.

pub mod access;
pub mod bash;
pub mod calculator;
pub mod fs;
mod off_runtime;
pub mod search;
pub mod tracker;

use std::sync::Arc;

use crate::permissions::KnownTools;
use crate::tool::{SubjectKind, Tool};

use access::FileAccess;
use bash::Bash;
use calculator::Calculator;
use fs::{EditFile, Files, ReadFile, WriteFile};
use search::{Glob, Grep};

/// The default set: file tools that share one access and one memory of what was read, a shell, and
/// arithmetic.
pub fn builtin(access: FileAccess, bash: Bash) -> Vec<Arc<dyn Tool>> {
    let access = Arc::new(access);
    let files = Files::new(Arc::clone(&access));
    vec![
        Arc::new(ReadFile(files.clone())),
        Arc::new(WriteFile(files.clone())),
        Arc::new(EditFile(files)),
        Arc::new(Glob(Arc::clone(&access))),
        Arc::new(Grep(access)),
        Arc::new(bash),
        Arc::new(Calculator),
    ]
}

/// What permission rules can say about the default set, known before there is one.
pub const SUBJECTS: KnownTools<'static> = &[
    ("read_file", Some(SubjectKind::Path)),
    ("write_file", Some(SubjectKind::Path)),
    ("edit_file", Some(SubjectKind::Path)),
    ("glob", Some(SubjectKind::Path)),
    ("grep", Some(SubjectKind::Path)),
    ("bash", Some(SubjectKind::Command)),
    ("calculator", None),
];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::tool::{OnCancel, ReplaySafety, ToolContext, ToolError};
    use crate::tools::access::AccessRules;

    fn tools() -> Vec<Arc<dyn Tool>> {
        builtin(FileAccess::new(AccessRules::workspace("/")).unwrap(), Bash::unconfined())
    }

    #[test]
    fn the_default_set_comes_in_a_fixed_order() {
        let tools = tools();
        let own: Vec<_> = tools.iter().map(|tool| (tool.name(), tool.subject_kind())).collect();
        assert_eq!(own, SUBJECTS);
    }

    #[test]
    fn what_every_request_says_about_the_tools_stays_small() {
        let specs: Vec<Value> = tools()
            .iter()
            .map(|tool| {
                json!({
                    "name": tool.name(),
                    "description": tool.description(),
                    "input_schema": tool.input_schema(),
                })
            })
            .collect();
        let size = serde_json::to_string(&specs).unwrap().len();
        // A first request of 8 KB has to hold the system prompt, too.
        assert!(size < 4_500, "{size} bytes");
    }

    #[test]
    fn every_tool_describes_each_of_its_arguments() {
        for tool in tools() {
            let schema = tool.input_schema();
            for (name, field) in schema["properties"].as_object().unwrap() {
                let described = field["description"].as_str().is_some_and(|text| !text.is_empty());
                assert!(described, "{}.{name}", tool.name());
            }
        }
    }

    /// Arguments that each tool accepts.
    fn sample(tool: &dyn Tool) -> Value {
        match tool.name() {
            "read_file" => json!({"file_path": "a"}),
            "write_file" => json!({"file_path": "a", "content": ""}),
            "edit_file" => json!({"file_path": "a", "old_string": "a", "new_string": "b"}),
            "glob" | "grep" => json!({"pattern": "a"}),
            "bash" => json!({"command": "true"}),
            _ => json!({"a": 1, "b": 2, "op": "add"}),
        }
    }

    #[test]
    fn tools_that_change_nothing_may_be_repeated_and_only_those() {
        for tool in tools() {
            let is_read_only = tool.effects(&sample(&*tool)).is_read_only();
            let is_repeatable = tool.replay_safety() == ReplaySafety::Safe;
            assert_eq!(is_read_only, is_repeatable, "{}", tool.name());
            let is_bash = tool.name() == "bash";
            assert_eq!(tool.on_cancel() == OnCancel::MayBePartial, is_bash, "{}", tool.name());
        }
    }

    #[tokio::test]
    async fn every_tool_tells_the_model_of_an_argument_it_does_not_have() {
        let ctx = ToolContext {
            cwd: "/".into(),
            cancel: CancellationToken::new(),
            session_id: String::new(),
            output: None,
            grants: crate::tool::Grants::default(),
            redactor: std::sync::Arc::default(),
        };
        for tool in tools() {
            let mut args = sample(&*tool);
            args["verbose"] = json!(true);
            let result = tool.call(args, &ctx).await;
            assert!(
                matches!(&result, Err(ToolError::InvalidArgs(text)) if text.contains("verbose")),
                "{}: {result:?}",
                tool.name()
            );
        }
    }
}
