//! Reads what the configuration is made of: files, variables, options, and what was granted.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use llm::config::{
    self, Fault, FromVariable, Grant, Key, Layers, Parsed, Project, Request, Settings, Sources,
    Standing,
};
use serde_json::{Value, json};

use super::trust::{self, TrustStore};
use super::{Environment, StartError, policy};
use crate::args::Args;

/// Where a repository keeps its file.
const PROJECT_FILE: &str = ".anvil/config.toml";

/// Where a repository keeps a base of the system prompt.
pub(super) const PROJECT_SYSTEM: &str = ".anvil/SYSTEM.md";

/// A file is read whole and only up to this size; people write a few kilobytes.
const MAX_FILE: u64 = 1 << 20;

/// Most characters of one line about the configuration.
const MAX_NOTICE: usize = 1_000;

/// Most faults of one kind that are told one by one.
const MAX_TOLD: usize = 10;

/// The configuration of a run, and what there is to say about it.
pub(crate) struct Configuration {
    /// What holds.
    pub(crate) settings: Settings,
    /// What a person has to know before the work, one line each.
    pub(crate) notices: Vec<String>,
    /// Why the repository's file says nothing, if it is there and cannot be read: a rule that
    /// forbids something may be lost with it.
    pub(crate) doubt: Option<String>,
    /// Further folders that may be read and written, absolute and without links.
    pub(crate) roots: Vec<PathBuf>,
    /// What it was made of.
    pub(crate) inputs: Inputs,
}

/// Where the parts of the configuration are, whether they are there or not.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The folder that a repository's file and a grant are about, a canonical path.
    pub(crate) root: PathBuf,
    /// The user's file; nowhere without a home folder.
    pub(crate) user_file: Option<PathBuf>,
    /// The repository's file.
    pub(crate) project_file: PathBuf,
    /// Where grants are kept; nowhere without a data folder.
    pub(crate) trust_file: Option<PathBuf>,
}

impl Places {
    /// The places for work in `cwd`, a canonical path.
    pub(crate) fn of(env: &Environment, cwd: &Path) -> Self {
        let root = repository_root(cwd);
        Self {
            user_file: env.config_dir.as_ref().map(|dir| dir.join("config.toml")),
            project_file: root.join(PROJECT_FILE),
            trust_file: env.data_dir.as_ref().map(|dir| dir.join("trust.json")),
            root,
        }
    }
}

impl Places {
    /// The folder of the repository's file.
    pub(crate) fn project_dir(&self) -> &Path {
        self.project_file.parent().unwrap_or(&self.root)
    }
}

/// All that the configuration is made of.
pub(crate) struct Inputs {
    /// Where it is.
    pub(crate) places: Places,
    /// What the repository asks authority for.
    pub(crate) request: Request,
    /// What was granted to the folder.
    pub(crate) grant: Option<Grant>,
    /// The repository's base of the system prompt, whether it was granted or not.
    system: Option<String>,
    user: Option<Parsed>,
    project: Option<Parsed>,
    config_flag: Option<Parsed>,
    environment: Vec<FromVariable>,
    flags: Vec<(Key, &'static str, Value)>,
}

impl Configuration {
    /// Most model requests of one turn.
    pub(crate) fn max_steps(&self) -> u32 {
        let steps = self.settings.instructions.agent.max_steps;
        steps.expect("the lowest layer sets it").get()
    }

    /// Whether programs are asked for their versions.
    pub(super) fn asks_programs(&self) -> bool {
        self.settings.instructions.agent.ask_programs.expect("the lowest layer sets it")
    }

    /// The repository's base of the system prompt, where a person trusted the folder with it.
    pub(super) fn project_system(&self) -> Option<&str> {
        let is_granted = self.settings.standing == Some(Standing::Granted);
        self.inputs.system.as_deref().filter(|_| is_granted)
    }

    /// The share of the model's context window from which on the dialogue is summarised.
    pub(crate) fn compact_at(&self) -> f64 {
        self.settings.instructions.agent.compact_at.expect("the lowest layer sets it")
    }
}

impl Inputs {
    /// What holds under `grant`.
    pub(crate) fn settings(&self, grant: Option<&Grant>) -> Result<Settings, String> {
        let parsed = self.project.clone();
        let project = parsed.map(|parsed| Project::new(parsed, &self.request, grant));
        let layers = Layers::merge(Sources {
            user: self.user.as_ref(),
            project: project.as_ref(),
            environment: self.environment.clone(),
            config_flag: self.config_flag.as_ref(),
            flags: self.flags.clone(),
        });
        Settings::new(layers, project.map(|project| project.standing()))
    }
}

/// Reads the configuration for work in `cwd`, a canonical path.
pub(crate) fn load(
    args: &Args,
    env: &Environment,
    cwd: &Path,
) -> Result<Configuration, StartError> {
    let fatal = |fault: Fault| StartError::Config(fault.to_string());
    let mut notices = Vec::new();
    let places = Places::of(env, cwd);
    let user = read_own(places.user_file.as_deref()).map_err(fatal)?;
    let config_flag = match &args.config {
        Some(path) => Some(read_named(path).map_err(fatal)?),
        None => None,
    };
    for parsed in user.iter().chain(&config_flag) {
        tell_unknown(parsed, args.strict_config, &mut notices).map_err(fatal)?;
        policy::check(parsed).map_err(fatal)?;
    }
    let mut inputs = Inputs {
        places,
        request: Request::default(),
        grant: None,
        system: None,
        user,
        project: None,
        config_flag,
        environment: config::environment(&super::var),
        flags: flags(args),
    };
    let doubt = inputs.add_project(args.strict_config, env, &mut notices)?;
    let settings = inputs.settings(inputs.grant.as_ref()).map_err(StartError::Config)?;
    tell_refused(&settings, &mut notices);
    if inputs.system.is_some() && settings.standing != Some(Standing::Granted) {
        notices.push(format!(
            "{PROJECT_SYSTEM} is not used: this folder is not trusted with a system prompt of its own, or it \
             changed since (see `anvil trust`)"
        ));
    }
    tell_not_enforced(&settings, &mut notices);
    notices.extend(super::sandbox::notices(&settings));
    for notice in &mut notices {
        shorten(notice);
    }
    Ok(Configuration { settings, notices, doubt, roots: policy::further_roots(args)?, inputs })
}

impl Inputs {
    /// Adds the repository's file and what was granted. Says why the file is left out, if it is.
    fn add_project(
        &mut self,
        is_strict: bool,
        env: &Environment,
        notices: &mut Vec<String>,
    ) -> Result<Option<String>, StartError> {
        match read_inside(&self.places.root, PROJECT_SYSTEM) {
            Ok(system) => self.system = system,
            Err(fault) => notices.push(format!("{fault}; it is not used")),
        }
        let read = match read_inside(&self.places.root, PROJECT_FILE) {
            Ok(None) if self.system.is_none() => return Ok(None),
            Ok(text) => config::parse(PROJECT_FILE, &text.unwrap_or_default()),
            Err(fault) => Err(fault),
        };
        match TrustStore::read(env.data_dir.as_deref()) {
            Ok(store) => self.grant = store.grant(&self.places.root).cloned(),
            Err(error) => notices.push(error.to_string()),
        }
        let checked = read.and_then(|parsed| {
            tell_unknown(&parsed, is_strict, notices)?;
            policy::check(&parsed)?;
            let request = self.request(&parsed)?;
            Ok((parsed, request))
        });
        match checked {
            Ok((parsed, request)) => {
                self.project = Some(parsed);
                self.request = request;
                Ok(None)
            }
            Err(fault) if self.grant.is_some() => Err(StartError::Config(fault.to_string())),
            Err(fault) => {
                notices.push(format!(
                    "{fault}; nothing of this file is used, and every call asks until it is repaired"
                ));
                Ok(Some(fault.to_string()))
            }
        }
    }

    fn request(&self, parsed: &Parsed) -> Result<Request, Fault> {
        let unreadable = |why: String| Fault::unreadable(PROJECT_FILE, why);
        let words =
            config::named_words(&parsed.leaves).map_err(|error| unreadable(error.to_string()))?;
        let mut files = trust::hash_files(&self.places.root, &words)
            .map_err(|error| unreadable(format!("a file it names cannot be read: {error}")))?;
        // What is used is what was read here, so that nobody can change it after it was looked at.
        let system = self.system.as_ref().map(|text| config::digest_of(text.as_bytes()));
        files.extend(system.map(|digest| (PROJECT_SYSTEM.to_owned(), digest)));
        Ok(Request::of(&parsed.leaves, files))
    }
}

/// What single options set.
fn flags(args: &Args) -> Vec<(Key, &'static str, Value)> {
    let mut flags = policy::flags(args);
    if let Some(model) = &args.model {
        flags.push((Key::of(["default_model"]), "--model", json!(model)));
    }
    if let Some(steps) = args.max_steps {
        flags.push((Key::of(["agent", "max_steps"]), "--max-steps", json!(steps)));
    }
    if let Some(mode) = args.permission_mode() {
        flags.push((Key::of(["permissions", "mode"]), "--permission-mode", json!(mode)));
    }
    if let Some(mode) = args.sandbox {
        flags.push((Key::of(["sandbox", "mode"]), "--sandbox", json!(mode.as_mode())));
    }
    if args.network {
        flags.push((Key::of(["sandbox", "network"]), "--network", json!(true)));
    }
    flags
}

/// The top of the git work tree around `cwd`, or `cwd` where there is none.
pub(super) fn repository_root(cwd: &Path) -> PathBuf {
    let top = cwd.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok());
    top.unwrap_or(cwd).to_owned()
}

/// The user's file; it need not be there.
fn read_own(path: Option<&Path>) -> Result<Option<Parsed>, Fault> {
    let Some(path) = path else { return Ok(None) };
    let name = path.display().to_string();
    match read_if_there(path) {
        Ok(Some(text)) => config::parse(&name, &text).map(Some),
        Ok(None) => Ok(None),
        Err(error) => Err(Fault::unreadable(&name, error)),
    }
}

/// A text file of the user's that need not be there.
pub(super) fn read_if_there(path: &Path) -> io::Result<Option<String>> {
    match open(path) {
        Ok(file) => read(file).map(Some),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A text file that has to be there.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    open(path).and_then(read)
}

/// A file named on the command line; it has to be there.
fn read_named(path: &Path) -> Result<Parsed, Fault> {
    let name = path.display().to_string();
    let file = open(path).map_err(|error| Fault::unreadable(&name, error))?;
    read_and_parse(&name, file)
}

fn read_and_parse(name: &str, file: File) -> Result<Parsed, Fault> {
    let text = read(file).map_err(|error| Fault::unreadable(name, error))?;
    config::parse(name, &text)
}

/// A file of the repository, which may have made it a link to anywhere.
fn read_inside(root: &Path, name: &str) -> Result<Option<String>, Fault> {
    let path = root.join(name);
    let fault = |why: &dyn std::fmt::Display| Fault::unreadable(name, why);
    let real = match path.canonicalize() {
        Ok(real) => real,
        // A link to nothing is no file either, but somebody put it there.
        Err(error) if is_missing(&error) && path.symlink_metadata().is_err() => return Ok(None),
        Err(error) => return Err(fault(&error)),
    };
    if !real.starts_with(root) {
        return Err(fault(&"it is a link that leads out of the repository"));
    }
    open(&real).and_then(read).map(Some).map_err(|error| fault(&error))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Opens a file for reading without waiting for the writer of a pipe.
fn open(path: &Path) -> io::Result<File> {
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

fn read(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::other(format!("it is not valid UTF-8 at byte {at}"))
    })
}

/// Tells unknown keys; the first one is an error where that was asked for.
fn tell_unknown(parsed: &Parsed, is_strict: bool, notices: &mut Vec<String>) -> Result<(), Fault> {
    if is_strict && let Some(first) = parsed.unknown.first() {
        return Err(first.clone());
    }
    notices.extend(parsed.unknown.iter().take(MAX_TOLD).map(ToString::to_string));
    if let Some(more) = parsed.unknown.len().checked_sub(MAX_TOLD).filter(|more| *more > 0) {
        notices.push(format!("{}: {more} more unknown keys", parsed.file));
    }
    Ok(())
}

fn tell_refused(settings: &Settings, notices: &mut Vec<String>) {
    let asked = settings.asked();
    if asked.is_empty() {
        return;
    }
    let why = match settings.standing {
        Some(Standing::Changed) => "changed since this folder was trusted, so it does not get",
        Some(Standing::Granted) => "does not get",
        Some(Standing::Never | Standing::NotNeeded) | None => "is not trusted with",
    };
    notices.push(format!("{PROJECT_FILE} {why}: {} (see `anvil trust`)", listed(&asked)));
}

fn tell_not_enforced(settings: &Settings, notices: &mut Vec<String>) {
    let keys = settings.not_enforced();
    if !keys.is_empty() {
        notices.push(format!("this version does not act on {} yet", listed(&keys)));
    }
}

/// Names in a repository's file may be as long as the file.
fn shorten(notice: &mut String) {
    if let Some((at, _)) = notice.char_indices().nth(MAX_NOTICE) {
        notice.truncate(at);
        notice.push('…');
    }
}

fn listed(names: &[String]) -> String {
    let told = names[..names.len().min(MAX_TOLD)].join(", ");
    match names.len().checked_sub(MAX_TOLD).filter(|more| *more > 0) {
        Some(more) => format!("{told} and {more} more"),
        None => told,
    }
}
