//! How commands are confined in a repository that wants it otherwise, found out by running some.

use serde_json::json;

use super::{Stage, need};
use crate::support::listener::Listener;
use crate::support::model::{Answer, Model};
use crate::support::pty::{Pty, Setup};
use crate::support::run;

/// Writes the workspace, and the folder around it if nothing holds it back.
const ATTACK: &str = "touch inside; touch ../escaped; echo end";

impl Stage<'_> {
    /// In a conversation commands are confined as `policy` says. A run that nobody watches does not begin:
    /// what is never wider than a policy is nothing at all.
    pub(super) fn policy_holds(&self, policy: &str) -> Result<(), String> {
        need(policy == "workspace-write", || format!("the adapter does not know {policy}"))?;
        let (inside, escaped) =
            (self.home.work().join("inside"), self.home.work().join("../escaped"));
        let model = model(ATTACK);
        let words = ["-p", "x", "--permission-mode", "bypass"];
        let ran = run(self.home.anvil_with(&model).args(words));
        need(ran.code() == 77 && !inside.exists() && !escaped.exists(), || format!("{ran:?}"))?;

        let shown = self.converse(ATTACK, &["--permission-mode", "bypass"]);
        need(inside.exists(), || format!("the command did not run: {shown}"))?;
        need(!escaped.exists(), || format!("it escaped: {shown}"))?;

        // A person may.
        let own_word = ["--permission-mode", "bypass", "--sandbox", "full-access"];
        let shown = self.converse(ATTACK, &own_word);
        need(escaped.exists(), || format!("the control failed: {shown}"))
    }

    /// Commands reach nobody, although a person's word would let them.
    pub(super) fn network_is(&self, network: &str) -> Result<(), String> {
        need(network == "none", || format!("the adapter does not know {network}"))?;
        let listener = Listener::new();
        let attack = format!("echo x > /dev/tcp/127.0.0.1/{}; echo end", listener.port());
        let words = ["-p", "x", "--permission-mode", "bypass"];
        let ran = run(self.home.anvil_with(&model(&attack)).args(words));
        need(ran.code() == 0, || format!("{ran:?}"))?;
        let visitors = listener.visitors();
        need(visitors.is_empty(), || format!("somebody came: {visitors:?}"))?;

        let ran = run(self.home.anvil_with(&model(&attack)).args(words).arg("--network"));
        need(ran.code() == 0, || format!("{ran:?}"))?;
        need(!listener.visitors().is_empty(), || "the control failed".to_owned())
    }

    /// A conversation in which the model runs a command; what it showed.
    fn converse(&self, command: &str, words: &[&'static str]) -> String {
        let model = model(command);
        let mut pty = Pty::start_with(&self.home, &model, Setup::default().with_args(words));
        pty.expect_prompt();
        pty.send("go\r");
        pty.expect("done");
        pty.expect_prompt();
        pty.send("/exit\r");
        pty.code();
        pty.all()
    }
}

fn model(command: &str) -> Model {
    Model::new([Answer::call("bash", json!({"command": command})), Answer::text("done")])
}
