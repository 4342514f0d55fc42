//! Where sessions are: a folder for each workspace, a file for each session.

mod head;

use std::cmp::Ordering;
use std::fs::{self, DirBuilder};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use self::head::Asked;
use super::journal::{Journal, JournalError, LoadError, load, open_to_read};
use super::record::{self, Fork, Meta};
use super::reduce::State;
use crate::digest::Digest;
use crate::secrets::Redactor;

/// The most characters of a workspace's path that its folder repeats.
const READABLE: usize = 80;

/// The digits of the hash behind them.
const HASH: usize = 16;

/// The sessions of one user.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// The beginning of the first thing that was asked for, if there is one.
    pub first_prompt: Option<String>,
    /// It was begun, and nothing was asked.
    pub is_unused: bool,
    /// The model that was asked first.
    pub model: Option<String>,
    /// When it was written last.
    pub modified: SystemTime,
    /// Bytes.
    pub size: u64,
}

/// Why no session is meant.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// None begins like that.
    #[error("no session of this folder begins with '{0}'; `anvil sessions` lists them")]
    Unknown(String),
    /// Several do.
    #[error("several sessions begin with '{prefix}': {}", .ids.join(", "))]
    Ambiguous {
        /// What was given.
        prefix: String,
        /// Which ones.
        ids: Vec<String>,
    },
    /// The folder cannot be read.
    #[error("the sessions in {} cannot be listed: {error}", .path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// What the machine said.
        error: io::Error,
    },
}

impl Store {
    /// The sessions below the folder for data.
    pub fn new(data_dir: &Path) -> Self {
        Self { root: data_dir.join("sessions") }
    }

    /// The folder of all of them.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a workspace's sessions. Two workspaces never share one, however alike their paths.
    pub fn folder(&self, cwd: &Path) -> PathBuf {
        let path = cwd.as_os_str().as_encoded_bytes();
        let plain = |byte: &u8| match *byte {
            byte if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') => char::from(byte),
            _ => '-',
        };
        // The end of a path says more than its beginning.
        let end = &path[path.len().saturating_sub(READABLE)..];
        let readable: String = end.iter().map(plain).collect();
        let hash = Digest::of(path).to_string();
        self.root.join(format!("{}-{}", readable.trim_matches(['-', '.']), &hash[..HASH]))
    }

    /// Begins the file of a session.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(
        &self,
        meta: Meta,
        redactor: Arc<Redactor>,
    ) -> Result<(Journal, State), JournalError> {
        Journal::create(&self.file(&meta)?, meta, redactor)
    }

    /// Copies a session under a new id, to go on with the copy. The other file is only read.
    ///
    /// # Errors
    /// When the one cannot be read or the other not written.
    pub fn fork(
        &self,
        path: &Path,
        id: &str,
        cwd: &Path,
        redactor: Arc<Redactor>,
    ) -> Result<(Journal, State), JournalError> {
        let loaded = load(path)?;
        let old = loaded.state.meta().cloned().unwrap_or_default();
        let forked_from = Some(Fork { id: old.id.clone(), seq: loaded.records.saturating_sub(1) });
        let meta = Meta { id: id.to_owned(), cwd: cwd.to_owned(), forked_from, ..old };
        let path_of_copy = self.file(&meta)?;
        // Half a copy would be taken for the session that was written last, so it has another name until it
        // is whole.
        let part = path_of_copy.with_extension("part");
        let (mut journal, mut state) = Journal::create(&part, meta, redactor)?;
        let copied = copy(path, loaded.records, &mut journal, &mut state);
        match copied.and_then(|()| journal.rename(&path_of_copy)) {
            Ok(()) => Ok((journal, state)),
            Err(error) => {
                journal.discard();
                Err(error)
            }
        }
    }

    /// Where a session will be, in a folder that exists.
    fn file(&self, meta: &Meta) -> Result<PathBuf, JournalError> {
        let folder = self.folder(&meta.cwd);
        make_private(&self.root, &folder)
            .map_err(|error| JournalError::Io { path: folder.clone(), error })?;
        Ok(folder.join(format!("{}.jsonl", meta.id)))
    }

    /// The sessions of a workspace, the last one written first. Files that make no sense are listed
    /// without a prompt.
    ///
    /// # Errors
    /// When the folder cannot be read. A folder that does not exist has no sessions.
    pub fn list(&self, cwd: &Path) -> Result<Vec<Entry>, FindError> {
        Ok(files(&self.folder(cwd))?.into_iter().filter_map(File::entry).collect())
    }

    /// The sessions of all workspaces, the last one written first.
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub fn list_all(&self) -> Result<Vec<Entry>, FindError> {
        Ok(self.all_files()?.into_iter().filter_map(File::entry).collect())
    }

    fn all_files(&self) -> Result<Vec<File>, FindError> {
        let folders = match fs::read_dir(&self.root) {
            Ok(folders) => folders,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(FindError::Io { path: self.root.clone(), error }),
        };
        let mut all = Vec::new();
        for folder in folders.flatten().filter(is_folder) {
            all.extend(files(&folder.path())?);
        }
        all.sort_by(last_first);
        Ok(all)
    }

    /// The bytes of all files of all workspaces. Folders and files that cannot be looked at count nothing.
    pub fn total_bytes(&self) -> u64 {
        let folders = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let folders = folders.filter(is_folder);
        let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten());
        files.flatten().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
    }

    /// The session of this workspace that was written last, also if it turns out to be damaged: an earlier one
    /// in its place would be taken for it.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn latest(&self, cwd: &Path) -> Result<Option<Entry>, FindError> {
        // One that was begun and never asked anything is nothing to go on with.
        let mut entries = files(&self.folder(cwd))?.into_iter().filter_map(File::entry);
        Ok(entries.find(|entry| !entry.is_unused))
    }

    /// The one session whose id begins with `prefix`: of this workspace, else of any.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn find(&self, cwd: &Path, prefix: &str) -> Result<Entry, FindError> {
        let meant = |files: Vec<File>| -> Vec<Entry> {
            let begins = |file: &File| !prefix.is_empty() && file.id.starts_with(prefix);
            files.into_iter().filter(begins).filter_map(File::entry).collect()
        };
        let mut found = meant(files(&self.folder(cwd))?);
        if found.is_empty() {
            found = meant(self.all_files()?);
        }
        if let Some(exact) = found.iter().position(|entry| entry.id == prefix) {
            return Ok(found.swap_remove(exact));
        }
        match found.len() {
            0 => Err(FindError::Unknown(prefix.to_owned())),
            1 => Ok(found.remove(0)),
            _ => Err(FindError::Ambiguous {
                prefix: prefix.to_owned(),
                ids: found.into_iter().map(|entry| entry.id).collect(),
            }),
        }
    }
}

/// A file that may be a session. There may be thousands, so that only those are opened that are wanted.
struct File {
    id: String,
    path: PathBuf,
    modified: SystemTime,
    size: u64,
}

impl File {
    /// What its name and its place say; nothing where it is none of ours.
    fn new(file: &fs::DirEntry) -> Option<Self> {
        let path = file.path();
        if path.extension()? != "jsonl" {
            return None;
        }
        let id = path.file_stem()?.to_str().filter(|id| is_an_id(id))?.to_owned();
        let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Some(Self { id, path, modified, size: metadata.len() })
    }

    /// What a list says about it; nothing where it cannot be opened.
    fn entry(self) -> Option<Entry> {
        let head = head::read(&open_to_read(&self.path).ok()?);
        let is_unused = matches!(head.asked, Asked::Nothing);
        let first_prompt = match head.asked {
            Asked::This(prompt) => Some(prompt),
            Asked::Nothing | Asked::Unknown => None,
        };
        let (model, Self { id, path, modified, size }) = (head.model, self);
        Some(Entry { id, path, first_prompt, is_unused, model, modified, size })
    }
}

/// The files of a folder, the last one written first.
fn files(folder: &Path) -> Result<Vec<File>, FindError> {
    let fault = |error| FindError::Io { path: folder.to_owned(), error };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fault(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        files.extend(File::new(&entry.map_err(fault)?));
    }
    files.sort_by(last_first);
    Ok(files)
}

fn last_first(a: &File, b: &File) -> Ordering {
    b.modified.cmp(&a.modified).then_with(|| a.id.cmp(&b.id))
}

/// Appends the first records of the file at `path`, all but the very first, to another session.
fn copy(
    path: &Path,
    records: u64,
    journal: &mut Journal,
    state: &mut State,
) -> Result<(), JournalError> {
    let path_of = || path.to_owned();
    let io = |error| JournalError::Io { path: path_of(), error };
    let mut reader = BufReader::new(open_to_read(path).map_err(io)?);
    let mut line = Vec::new();
    for number in 1..=records {
        line.clear();
        reader.read_until(b'\n', &mut line).map_err(io)?;
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let read = record::read(text).map_err(|error| LoadError::Line {
            path: path_of(),
            line: number,
            error,
        })?;
        let Some(record) = read.record.filter(|_| number > 1) else { continue };
        state.apply(&record).map_err(|error| LoadError::Record {
            path: path_of(),
            line: number,
            error,
        })?;
        journal.append(&record)?;
    }
    Ok(())
}

/// Makes the folders for their user alone, also where they were made otherwise.
fn make_private(root: &Path, folder: &Path) -> io::Result<()> {
    for folder in [root, folder] {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Whether it is a folder of sessions, and not a link that would make each of them count twice.
fn is_folder(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}

/// Whether a file of ours can have this name: one that could pass for an option, a path or a line of a list
/// is nobody's session.
fn is_an_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    id.len() <= 128 && id.bytes().all(is_plain) && !id.starts_with(['-', '.'])
}
