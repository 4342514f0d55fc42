//! The composition root: environment and arguments become a model, tools, an approver and an agent.

pub(crate) mod config;
mod environment;
mod equipment;
mod error;
mod examine;
mod inquiry;
mod instructions;
mod lookup;
mod models;
mod plan;
pub(crate) mod policy;
mod reports;
mod retention;
mod room;
mod sandbox;
mod session;
mod surroundings;
mod system;
mod tape;
pub(crate) mod trust;
mod workspace;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::agent::{AgentConfig, AgentParts, ModelRef};
use agent::channel::{EventReceiver, EventSender};
use agent::session::Opening;
use agent::session::record::StampReason;
use agent::steering::{Queue, Steering, Unsteered};
use agent::{Agent, Approver, DenyAll, tools};
use llm::Provider;
use tokio::sync::mpsc;

use self::config::Configuration;
use self::environment::{Environment, var};
use self::equipment::{Equipment, commands, equipment};
pub(crate) use self::equipment::{builtin_tools, demo_commands};
pub(crate) use self::error::StartError;
use self::inquiry::{Asking, Inquiry};
pub(crate) use self::models::{Models, Resolved, Trial, Witness};
use self::plan::{Plan, join_prompt, plan};
pub(crate) use self::room::Room;
pub(crate) use self::session::{DEMO_MODEL, Growth, demo_session};
use self::workspace::workspace;
use crate::approve::{Interactive, Keeping, Question};
use crate::args::{Args, OutputFormat};
use crate::exit::Exit;
use crate::headless;
use crate::render::Render;
use crate::render::json::{Json, StreamJson};
use crate::render::text::{Audience, Text};
use crate::repl::Repl;
use crate::signals::{OnInterrupt, Signals};
use crate::stdin::{self, Source};
use crate::terminal::{self, Saved, Wishes};
use crate::ui::Ui;
use crate::working::Pastes;
use crate::{complain, demo, doctor, history, logs, redaction, trial};

/// A name for a conversation that no other one has.
pub(crate) fn new_session_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Does what the command line asks for.
pub(crate) fn run(args: Args) -> Exit {
    let format = args.output_format;
    let session_id = new_session_id();
    start(args, &session_id)
        .unwrap_or_else(|error| headless::never_began(&error, format, &session_id))
}

fn start(args: Args, session_id: &str) -> Result<Exit, StartError> {
    let env = Environment::read();
    if let Some(text) = lookup::answer(&args, &env)? {
        return Ok(headless::print(&text));
    }
    let plan = plan(&args)?;
    let log_file = env.data_dir.as_ref().map(|dir| dir.join("logs/anvil.log"));
    logs::start(log_file, env.log.as_deref()).map_err(StartError::Config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| StartError::machine("the runtime cannot be started", &error))?;
    let saved = (plan == Plan::Repl).then(|| Saved::take(env.is_plain));
    if saved.is_some() {
        terminal::leave_suspension_to_the_editor();
    }
    let work = Work { args, env, session_id: session_id.to_owned() };
    let exit = runtime.block_on(work.run(plan));
    // Ends what a forced exit left running, and does not wait for a thread that waits for input.
    runtime.shutdown_background();
    agent::process::reap_the_last();
    if let Some(saved) = saved {
        saved.restore();
    }
    exit
}

/// One run with all it was told.
struct Work {
    args: Args,
    env: Environment,
    session_id: String,
}

impl Work {
    async fn run(self, plan: Plan) -> Result<Exit, StartError> {
        let on_interrupt = match plan {
            Plan::Repl => OnInterrupt::EndTurn,
            Plan::Demo | Plan::Doctor { .. } | Plan::Trial(_) | Plan::Headless { .. } => {
                OnInterrupt::EndProgram
            }
        };
        let signals = Signals::listen(on_interrupt)
            .map_err(|error| StartError::machine("signals cannot be listened to", &error))?;
        let forced = signals.clone();
        let work = async {
            match plan {
                Plan::Demo => demo::run(self.session_id, self.env.is_plain, &signals).await,
                Plan::Doctor { json } => self.doctor(json, &signals).await,
                Plan::Trial(name) => self.trial(&name, &signals).await,
                Plan::Headless { prompt, source } => self.headless(prompt, source, signals).await,
                Plan::Repl => self.repl(signals).await,
            }
        };
        tokio::select! {
            biased;
            exit = work => exit,
            stop = forced.forced() => Ok(Exit::Stopped(stop)),
        }
    }

    async fn headless(
        mut self,
        prompt: String,
        source: Source,
        signals: Signals,
    ) -> Result<Exit, StartError> {
        // The other forms promise that a run without problems writes nothing beside its output.
        if self.env.data_dir.is_none() && self.args.output_format == OutputFormat::Text {
            complain("anvil: HOME is not set: logs and history are not kept\n");
        }
        let prepared = tokio::select! {
            prepared = self.prepare(prompt, source) => prepared?,
            stop = signals.stopped() => {
                let format = self.args.output_format;
                return Ok(headless::stopped_before(stop, format, &self.session_id));
            }
        };
        let (events, receiver) = agent::channel::channel();
        let Prepared { cwd, model, prompt, configuration, session } = prepared;
        let Resolved { provider, model, room, .. } = model;
        let opening = self.opening(session, &model, &cwd);
        let asked = (provider, model, opening);
        let watchers = (events.clone(), Arc::new(Unsteered) as _);
        let (agent, asking) =
            self.agent(asked, &cwd, &configuration, Arc::new(DenyAll), watchers)?;
        events.send(agent.session_started()).await;
        let (_, no_questions) = mpsc::channel(1);
        let ui = self.ui(Audience::Pipeline, receiver, no_questions, &signals)?;
        let exit = headless::run(agent, events, ui, &signals, prompt, room).await;
        asking.stop().await;
        Ok(exit)
    }

    async fn doctor(self, as_json: bool, signals: &Signals) -> Result<Exit, StartError> {
        let cwd = workspace(self.args.cwd.as_deref())?;
        let checks = tokio::select! {
            checks = examine::examine(&self.args, &self.env, &cwd) => checks,
            stop = signals.stopped() => return Ok(Exit::Stopped(stop)),
        };
        let told = if as_json { doctor::json(&checks) } else { doctor::page(&checks) };
        Ok(match headless::print(&told) {
            Exit::Done if doctor::has_problem(&checks) => Exit::Failed,
            exit => exit,
        })
    }

    async fn trial(self, name: &str, signals: &Signals) -> Result<Exit, StartError> {
        let cwd = workspace(self.args.cwd.as_deref())?;
        let configuration = config::load(&self.args, &self.env, &cwd)?;
        tell(&configuration);
        let models = self.models(&configuration, None, &cwd)?;
        let work = async { Ok(trial::run(models.trial(name).await?).await) };
        tokio::select! {
            exit = work => exit,
            stop = signals.stopped() => Ok(Exit::Stopped(stop)),
        }
    }

    async fn repl(mut self, signals: Signals) -> Result<Exit, StartError> {
        let cwd = workspace(self.args.cwd.as_deref())?;
        let configuration = config::load(&self.args, &self.env, &cwd)?;
        tell(&configuration);
        let session = self.choose(&configuration, &cwd)?;
        let models = self.models(&configuration, Some(&session), &cwd)?;
        let model = tokio::select! {
            model = models.first(Witness::Person) => model?,
            stop = signals.stopped() => return Ok(Exit::Stopped(stop)),
        };
        self.begin_recording(&models, &model, &cwd)?;
        tell_choice(&model);
        let places = &configuration.inputs.places;
        let (approver, questions) = Interactive::new(Keeping {
            user_file: places.user_file.clone(),
            repository: places.project_dir().to_owned(),
            tools: tools::SUBJECTS,
        });
        let (events, receiver) = agent::channel::channel();
        let Resolved { provider, model, room, .. } = model;
        let growth = session.choice.growth(&configuration.settings.runtime.sessions);
        let opening = self.opening(session, &model, &cwd);
        let tail = history::tail(&opening.state);
        let asked = (provider, model, opening);
        let (queue, pastes) = (Arc::new(Queue::default()), Pastes::default());
        let watchers = (events.clone(), Arc::clone(&queue) as _);
        let (agent, asking) =
            self.agent(asked, &cwd, &configuration, Arc::new(approver), watchers)?;
        let ui = self.ui(Audience::Conversation, receiver, questions, &signals)?;
        let history = self.env.data_dir.as_ref().map(|dir| dir.join("history"));
        let repl = Repl {
            agent,
            events,
            ui,
            signals,
            room,
            growth,
            models,
            history,
            tail,
            queue,
            pastes,
            unread: Vec::new(),
        };
        let exit = repl.run().await;
        asking.stop().await;
        Ok(exit)
    }

    /// All that may fail before a turn, cheapest first.
    async fn prepare(&mut self, prompt: String, source: Source) -> Result<Prepared, StartError> {
        let cwd = workspace(self.args.cwd.as_deref())?;
        let configuration = config::load(&self.args, &self.env, &cwd)?;
        tell(&configuration);
        let session = self.choose(&configuration, &cwd)?;
        let models = self.models(&configuration, Some(&session), &cwd)?;
        let model = models.first(Witness::Nobody).await?;
        self.begin_recording(&models, &model, &cwd)?;
        tell_choice(&model);
        let say = |line: &str| complain(&format!("anvil: {line}\n"));
        let input =
            stdin::read(source, say).await.map_err(|error| StartError::Usage(error.to_string()))?;
        let prompt = join_prompt(&prompt, input.as_deref())?;
        Ok(Prepared { cwd, model, prompt, configuration, session })
    }

    /// The session that this run writes; from here on its id is the run's.
    fn choose(&mut self, configuration: &Configuration, cwd: &Path) -> Result<Session, StartError> {
        // What is written to a session's file is without the keys of all providers from its first line on.
        learn_secrets(configuration, cwd);
        let limits = &configuration.settings.runtime.sessions;
        let choice = session::Choice::new(&self.args, &self.env, cwd, &self.session_id)?;
        self.session_id.clone_from(&choice.id);
        let resumed = choice.resume(cwd, limits)?;
        let crowded = choice.crowded(limits);
        for problem in resumed.iter().flat_map(|resumed| &resumed.problems).chain(&crowded) {
            complain(&format!("anvil: {problem}\n"));
        }
        for notice in resumed.iter().flat_map(|resumed| &resumed.notices) {
            self.inform(notice);
        }
        Ok(Session { choice, resumed: resumed.map(|resumed| resumed.opening) })
    }

    /// Tells a person what is no problem. A program that reads JSON gets standard error without it.
    fn inform(&self, notice: &str) {
        match self.args.output_format {
            OutputFormat::Text => complain(&format!("anvil: {notice}\n")),
            OutputFormat::Json | OutputFormat::StreamJson => tracing::info!(notice),
        }
    }

    /// What the agent goes on with, or begins.
    fn opening(&self, session: Session, model: &ModelRef, cwd: &Path) -> Opening {
        if let Some(before) = session.model().filter(|before| *before != model.label) {
            self.inform(&format!(
                "{before} answered before and {} answers now; what only the other can read is left out",
                model.label
            ));
        }
        session.resumed.unwrap_or_else(|| {
            session.choice.begin(session::meta(&self.session_id, cwd, &model.label))
        })
    }

    fn models(
        &self,
        configuration: &Configuration,
        session: Option<&Session>,
        cwd: &Path,
    ) -> Result<Models, StartError> {
        // Nothing has been asked yet.
        learn_secrets(configuration, cwd);
        let tape = tape::open(&self.args, cwd, &self.session_id)?;
        // Whoever names a model means that one; else a replay asks the one that was recorded.
        let recorded = match self.args.model {
            Some(_) => None,
            None => tape::model(tape.as_ref()).or_else(|| session?.model()).map(str::to_owned),
        };
        let models = Models::new(configuration.settings.clone(), self.args.effort.clone());
        Ok(models.past(tape, recorded))
    }

    fn begin_recording(
        &self,
        models: &Models,
        model: &Resolved,
        cwd: &Path,
    ) -> Result<(), StartError> {
        tape::begin(&self.args, models, &model.model.label, cwd, &self.session_id)
    }

    fn agent(
        &self,
        (provider, model, opening): (Arc<dyn Provider>, ModelRef, Opening),
        cwd: &Path,
        configuration: &Configuration,
        approver: Arc<dyn Approver>,
        (events, steering): (EventSender, Arc<dyn Steering>),
    ) -> Result<(Agent, Asking), StartError> {
        let Equipment { tools, policy, sandbox } =
            equipment(configuration, cwd, &self.env, &self.session_id)?;
        let inquiry = Inquiry::new(&self.args, &self.env, configuration, cwd, sandbox);
        let composed = system::prompt(&self.args, configuration, cwd, &tools, &inquiry)?;
        for notice in &composed.notices {
            complain(&format!("anvil: {notice}\n"));
        }
        let reason = composed.reason_to_stamp(&opening.state, &model.label);
        if reason == Some(StampReason::Trust) {
            complain(&format!("anvil: {}\n", composed.trust_changed()));
        }
        let mut agent = Agent::new(AgentParts {
            provider,
            model,
            tools,
            policy,
            programs: policy::programs(cwd, &configuration.roots),
            approver,
            events,
            cwd: cwd.to_owned(),
            opening,
            steering,
            session_id: self.session_id.clone(),
            config: AgentConfig {
                max_steps: configuration.max_steps(),
                max_wall_time: self.args.max_wall_time,
                compact_at: configuration.compact_at(),
                system: Some(composed.into_text()),
            },
        });
        if let Some(reason) = reason {
            agent.restamp(reason);
        }
        Ok((agent, inquiry.begin()))
    }

    fn ui(
        &self,
        audience: Audience,
        events: EventReceiver,
        questions: mpsc::Receiver<Question>,
        signals: &Signals,
    ) -> Result<Ui, StartError> {
        let id = || self.session_id.clone();
        let renderer: Box<dyn Render> = match self.args.output_format {
            OutputFormat::Text => {
                let look = terminal::look(Wishes {
                    is_plain: self.env.is_plain,
                    is_verbose: self.args.verbose,
                });
                Box::new(Text::new(io::stdout(), io::stderr(), audience, look))
            }
            OutputFormat::Json => Box::new(Json::new(io::stdout(), id())),
            OutputFormat::StreamJson => Box::new(StreamJson::new(io::stdout(), id())),
        };
        let events = events.redacting(redaction::current());
        Ui::start(renderer, events, questions, signals.clone())
            .map_err(|error| StartError::machine("no thread can be started", &error))
    }
}

/// The session of a run.
struct Session {
    choice: session::Choice,
    /// What it goes on with.
    resumed: Option<Opening>,
}

impl Session {
    /// The model that answered last.
    fn model(&self) -> Option<&str> {
        self.resumed.as_ref()?.state.model()
    }
}

/// What a headless run needs before its turn.
struct Prepared {
    cwd: PathBuf,
    model: Resolved,
    prompt: String,
    configuration: Configuration,
    session: Session,
}

/// From here on it is known whose keys there are, and how much the log may hold.
fn learn_secrets(configuration: &Configuration, cwd: &Path) {
    let settings = &configuration.settings;
    redaction::learn(settings.key_variables(), cwd, &settings.instructions.mask);
    logs::limit(settings.runtime.sessions.max_log_mb);
}

/// Tells what a person has to know about the configuration before the work.
fn tell(configuration: &Configuration) {
    for notice in &configuration.notices {
        complain(&format!("anvil: {notice}\n"));
    }
}

/// Tells what a person has to know about the model that was chosen.
fn tell_choice(model: &Resolved) {
    if let Some(notice) = &model.notice {
        complain(&format!("anvil: {notice}\n"));
    }
}
