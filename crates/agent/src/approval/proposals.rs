//! Which rules a person is offered who does not want to be asked again, the narrowest first.

use serde_json::Value;

use crate::permissions::{exact_rule, shell};
use crate::tool::{SubjectKind, Tool};

/// Up to three rules that would have let this call run: exactly it, calls much like it, and wider.
///
/// None where no rule would help, as with a command line that only the shell understands.
pub fn proposals(tool: &dyn Tool, args: &Value) -> Vec<String> {
    let subject = tool.permission_subject(args);
    match (tool.subject_kind(), subject) {
        (Some(SubjectKind::Command), Some(command)) => shell::propose(&command),
        (Some(SubjectKind::Path), Some(path)) => {
            for_path(tool.name(), &path, exact_rule(tool, args))
        }
        (Some(SubjectKind::Name) | None, Some(_)) => {
            vec![exact_rule(tool, args), tool.name().to_owned()]
        }
        (_, None) => vec![tool.name().to_owned()],
    }
}

/// Which of the proposals is offered before the others: commands that begin like this one, the folder of
/// a file, and else exactly this call.
pub fn offered_first(rules: &[String]) -> usize {
    let prefix = rules.iter().rposition(|rule| rule.ends_with(":*)"));
    prefix.unwrap_or(usize::from(rules.len() == 3))
}

/// The file, its folder, every file.
fn for_path(tool: &str, path: &str, exact: String) -> Vec<String> {
    let mut rules = vec![exact];
    if let Some((folder, _)) = path.rsplit_once('/').filter(|(folder, _)| !folder.is_empty()) {
        let start = if path.starts_with('/') { "/" } else { "./" };
        rules.push(format!("{tool}({start}{}/**)", globset::escape(folder)));
    }
    rules.push(tool.to_owned());
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_command_and_the_folder_of_a_file_are_offered_first() {
        let check = |rules: &[&str], want| {
            let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
            assert_eq!(offered_first(&rules), want, "{rules:?}");
        };
        check(&["bash(cargo test --lib)", "bash(cargo test --lib:*)", "bash(cargo test:*)"], 2);
        check(&["bash(python x)"], 0);
        check(&["edit_file(./src/a)", "edit_file(./src/**)", "edit_file"], 1);
        check(&["edit_file(./a)", "edit_file"], 0);
    }

    #[test]
    fn a_file_is_followed_by_its_folder_and_by_every_file() {
        let rules = |path| for_path("edit_file", path, format!("edit_file({path})"));
        assert_eq!(
            rules("src/a/b.rs"),
            ["edit_file(src/a/b.rs)", "edit_file(./src/a/**)", "edit_file"]
        );
        assert_eq!(rules("b.rs"), ["edit_file(b.rs)", "edit_file"]);
        assert_eq!(
            rules("/etc/a[1]/b"),
            ["edit_file(/etc/a[1]/b)", "edit_file(//etc/a[[]1[]]/**)", "edit_file"]
        );
    }
}
