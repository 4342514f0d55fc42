//! The reports on programs that earlier runs made, in one file of the data folder.
//!
//! Nothing depends on the file: one that is damaged, too large, a link, or that somebody else owns or can
//! write is as good as none, and is replaced by the next report.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use agent::context::environment::report::Report;
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

/// The layout of the file.
const VERSION: u32 = 1;

/// Most reports that are kept: one for each path and sandbox that somebody works with.
const MAX_REPORTS: usize = 8;

/// A report has less than a kilobyte.
const MAX_FILE: u64 = 64 << 10;

/// The reports of one user.
#[derive(Debug, Clone)]
pub(super) struct Reports {
    folder: PathBuf,
}

/// A report and what it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// What it depends on.
    pub(super) key: String,
    /// When the folders of the path had changed.
    pub(super) folders: String,
    /// How often it was tried to fill its gaps.
    pub(super) tries: u32,
    /// What was found.
    pub(super) programs: Report,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    /// The newest first.
    reports: Vec<Kept>,
}

impl Reports {
    /// The reports below the folder for data.
    pub(super) fn new(data_dir: &Path) -> Self {
        Self { folder: data_dir.join("environment") }
    }

    /// The report that was made under this key.
    pub(super) fn find(&self, key: &str) -> Option<Kept> {
        self.read().into_iter().find(|kept| kept.key == key)
    }

    /// Keeps a report in the place of an earlier one under its key. Of two processes that keep one at the same
    /// moment one is lost, and made again by a later run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn keep(&self, kept: Kept) -> io::Result<()> {
        let mut reports = self.read();
        reports.retain(|earlier| earlier.key != kept.key);
        reports.insert(0, kept);
        reports.truncate(MAX_REPORTS);
        self.make_private()?;
        let text = serde_json::to_vec(&Stored { version: VERSION, reports })?;
        // Made for its user alone, and moved in the place of whatever is there, without following it.
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(&text)?;
        file.persist(self.file()).map_err(|error| error.error)?;
        Ok(())
    }

    fn file(&self) -> PathBuf {
        self.folder.join("programs.json")
    }

    /// All that make sense; none where anything about the file is not as it was left.
    fn read(&self) -> Vec<Kept> {
        let stored = self.text().and_then(|text| Ok(serde_json::from_str::<Stored>(&text)?));
        let mut reports = match stored {
            Ok(stored) if stored.version == VERSION => stored.reports,
            Ok(_) => Vec::new(),
            Err(error) => {
                tracing::debug!(%error, "no report on programs is read");
                Vec::new()
            }
        };
        reports.retain(|kept| kept.programs.is_sound());
        reports.truncate(MAX_REPORTS);
        reports
    }

    fn text(&self) -> io::Result<String> {
        let folder = self.folder.symlink_metadata()?;
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(self.file())?;
        let metadata = file.metadata()?;
        let is_ours = folder.is_dir() && is_own(&folder) && metadata.is_file() && is_own(&metadata);
        if !is_ours || metadata.len() > MAX_FILE {
            return Err(io::Error::other("the file is not as this program left it"));
        }
        whole(file)
    }

    fn make_private(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        if !self.folder.symlink_metadata()?.is_dir() {
            return Err(io::Error::other("the folder is a link"));
        }
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700))
    }
}

fn whole(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text)?;
    Ok(text)
}

/// Whether nobody but this user can have written it.
fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == geteuid().as_raw() && metadata.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use agent::context::environment::report::{Answer, INVENTORY};

    use super::*;

    fn kept(key: &str) -> Kept {
        let answers = INVENTORY.map(|tool| (tool.name, Answer::Version("1.2".to_owned())));
        let (key, folders) = (key.to_owned(), "f".to_owned());
        Kept { key, folders, tries: 1, programs: Report::new(answers) }
    }

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().mode() & 0o777
    }

    #[test]
    fn reports_are_found_by_their_key_and_kept_for_their_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let reports = Reports::new(&dir.path().join("data"));
        assert_eq!(reports.find("a"), None);
        for key in ["a", "b"] {
            reports.keep(kept(key)).unwrap();
        }
        assert_eq!(reports.find("a"), Some(kept("a")));
        assert_eq!(reports.find("c"), None);
        assert_eq!((mode(&reports.folder), mode(&reports.file())), (0o700, 0o600));
        reports.keep(Kept { tries: 2, ..kept("a") }).unwrap();
        assert_eq!(reports.read().len(), 2);
        (0..20).for_each(|number| reports.keep(kept(&number.to_string())).unwrap());
        assert_eq!(reports.read().len(), MAX_REPORTS);
        assert!(reports.find("19").is_some() && reports.find("a").is_none());
        let left: Vec<_> = fs::read_dir(&reports.folder).unwrap().collect();
        assert_eq!(left.len(), 1);
    }

    /// Spoils a file with a good report, and expects it to be ignored and then replaced.
    #[track_caller]
    fn check(what: &str, spoil: impl Fn(&Reports)) {
        let dir = tempfile::tempdir().unwrap();
        let reports = Reports::new(dir.path());
        reports.keep(kept("a")).unwrap();
        spoil(&reports);
        assert_eq!(reports.find("a"), None, "{what}");
        reports.keep(kept("b")).unwrap();
        assert_eq!(reports.find("b"), Some(kept("b")), "{what}");
        assert!(reports.file().symlink_metadata().unwrap().is_file(), "{what}");
    }

    #[test]
    fn a_file_that_is_not_as_it_was_left_is_ignored_and_made_anew() {
        let write = |reports: &Reports, text: &[u8]| fs::write(reports.file(), text).unwrap();
        let text = |reports: &Reports| fs::read_to_string(reports.file()).unwrap();
        check("cut", |reports| write(reports, &text(reports).as_bytes()[..100]));
        check("no text", |reports| write(reports, &[0xff; 10]));
        check("another version", |reports| {
            write(reports, text(reports).replace("\"version\":1", "\"version\":2").as_bytes());
        });
        check("another text in it", |reports| {
            write(reports, text(reports).replace("1.2", "1.2 obey").as_bytes());
        });
        check("too large", |reports| {
            let padded = format!("{}{}", text(reports), " ".repeat(MAX_FILE as usize));
            write(reports, padded.as_bytes());
        });
        check("a link", |reports| {
            let elsewhere = reports.folder.join("elsewhere");
            fs::rename(reports.file(), &elsewhere).unwrap();
            std::os::unix::fs::symlink(&elsewhere, reports.file()).unwrap();
        });
        check("others write it", |reports| {
            let anybody = fs::Permissions::from_mode(0o666);
            fs::set_permissions(reports.file(), anybody).unwrap();
        });
        check("others write its folder", |reports| {
            let anybody = fs::Permissions::from_mode(0o777);
            fs::set_permissions(&reports.folder, anybody).unwrap();
        });
        check("a pipe", |reports| {
            fs::remove_file(reports.file()).unwrap();
            nix::unistd::mkfifo(&reports.file(), nix::sys::stat::Mode::S_IRUSR).unwrap();
        });
        if geteuid().is_root() {
            check("somebody else's", |reports| {
                std::os::unix::fs::chown(reports.file(), Some(65_534), None).unwrap();
            });
        }
    }

    #[test]
    fn nothing_is_kept_behind_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (data, elsewhere) = (dir.path().join("data"), dir.path().join("elsewhere"));
        fs::create_dir(&data).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, data.join("environment")).unwrap();
        assert!(Reports::new(&data).keep(kept("a")).is_err());
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}
