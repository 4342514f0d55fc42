//! Closes calls that an earlier run of the program left without a result.

use llm::ContentBlock;

use super::batch::Call;
use super::{Agent, AgentError, Run};
use crate::git::Git;
use crate::permissions::Place;
use crate::process;
use crate::sanitize;
use crate::session::record::{How, Intended, Record};
use crate::session::recover::{self, NOT_STARTED, Remedy, Repeatable, Seen, Traces};
use crate::session::reduce;
use crate::tool::Grants;

/// The longest path or command line that is told, in characters.
const LONGEST: usize = 300;

/// The most processes that are told.
const MOST: usize = 10;

impl Agent {
    /// Gives every call of the last message a result, if the program ended before they had one, and
    /// commits them. Nothing is left to do the second time.
    pub(super) async fn recover(&mut self, run: &Run) -> Result<(), AgentError> {
        let waiting = self.session.state().calls().to_vec();
        if waiting.is_empty() {
            return Ok(());
        }
        let calls = super::batch::calls_of(self.session.messages().last());
        for (call, reached) in calls.iter().zip(waiting) {
            self.give_result(call, reached, run).await?;
        }
        self.session.commit_results(Vec::new(), Vec::new())?;
        self.tell_trouble(run).await;
        Ok(())
    }

    async fn give_result(
        &mut self,
        call: &Call,
        reached: reduce::Call,
        run: &Run,
    ) -> Result<(), AgentError> {
        let remedy = recover::remedy(&reached.state, self.repeatable(call));
        let how = remedy.how();
        let result = match remedy {
            Remedy::Recorded => return Ok(()),
            Remedy::NotStarted => ContentBlock::tool_result(&call.id, NOT_STARTED, true),
            Remedy::Again => self.run_again(call, run).await,
            Remedy::Unknown { intended } => {
                let traces = self.traces(call, &intended, run).await;
                let told = recover::unknown(&call.name, &traces);
                ContentBlock::tool_result(&call.id, self.tools.redactor().redact_owned(told), true)
            }
        };
        tracing::warn!(
            call = call.id,
            tool = call.name,
            ?how,
            "a call without a result was closed"
        );
        let call_id = call.id.clone();
        self.session.commit(&Record::ToolFinished { call_id, result, how })?;
        Ok(())
    }

    /// A look that is repeated asks nobody: where it is not allowed any more it is not repeated.
    async fn run_again(&self, call: &Call, run: &Run) -> ContentBlock {
        let is_allowed = (self.tools.get(&call.name))
            .is_some_and(|tool| self.decide(tool.as_ref(), call).is_allowed());
        if !is_allowed || run.how(How::Ran) == How::Cancelled {
            return ContentBlock::tool_result(&call.id, NOT_STARTED, true);
        }
        self.dispatch(call, Grants::default(), run).await.result
    }

    fn repeatable(&self, call: &Call) -> Repeatable {
        let tool = self.tools.get(&call.name);
        Repeatable {
            is_read_only: tool.is_some_and(|tool| tool.effects(&call.args).is_read_only()),
            is_safe: tool
                .is_some_and(|tool| tool.replay_safety() == crate::tool::ReplaySafety::Safe),
        }
    }

    async fn traces(&self, call: &Call, intended: &[Intended], run: &Run) -> Traces {
        let mut files = Vec::new();
        for one in intended {
            let seen = match self.tools.get(&call.name) {
                Some(tool) => {
                    let context = self.context(call, Grants::default(), run);
                    recover::compare(one, tool.fingerprint(&one.path, &context).await.as_ref())
                }
                None => Seen::Unseen,
            };
            files.push((shortened(&one.path.to_string_lossy()), seen));
        }
        let processes = process::of_session(&self.session_id).map(|found| {
            let tell = |(id, command): (u32, String)| (id, shortened(&command));
            found.into_iter().take(MOST).map(tell).collect()
        });
        Traces { files, git: self.git_status().await, processes }
    }

    async fn git_status(&self) -> Option<String> {
        let Place::Trusted(program) = self.programs.place("git") else { return None };
        let git = Git::open(&program, &self.cwd).await.ok()?;
        let changes = git.changes().await.ok()?;
        let (changed, untracked) = (changes.changed, changes.untracked);
        Some(format!(
            "{changed} files differ from the last commit, {untracked} are not known to git"
        ))
    }
}

fn shortened(text: &str) -> String {
    let line: String = text.chars().take(LONGEST).collect();
    sanitize::one_line(&sanitize::visible(&line)).into_string()
}
