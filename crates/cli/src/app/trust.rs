//! The trust store: which folders a person trusted with what, in one file of the data folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use llm::config::{Grant, digest_of};
use serde::{Deserialize, Serialize};

/// The store is read whole; a thousand grants have a few hundred kilobytes.
const MAX_STORE: u64 = 16 << 20;

/// The layout of the file.
const VERSION: u32 = 1;

/// Why a grant cannot be looked up or kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    /// There is no data folder.
    #[error("grants cannot be kept: neither HOME nor ANVIL_HOME is set")]
    NoHome,
    /// The file is damaged; nothing in it counts.
    #[error(
        "{} cannot be read, so no folder is trusted ({why}): repair it, or remove it and grant again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file cannot be written.
    #[error("{} cannot be written: {error}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The folder has a name that the file cannot hold.
    #[error("{} cannot be trusted: its path is not valid UTF-8", .0.display())]
    Unnameable(PathBuf),
}

/// The grants of all folders.
#[derive(Debug)]
pub(crate) struct TrustStore {
    path: Option<PathBuf>,
    folders: BTreeMap<String, Grant>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    folders: BTreeMap<String, Grant>,
}

impl TrustStore {
    /// Reads the store below `data_dir`; without the file nothing is granted.
    pub(crate) fn read(data_dir: Option<&Path>) -> Result<Self, TrustError> {
        let Some(path) = data_dir.map(|dir| dir.join("trust.json")) else {
            return Ok(Self { path: None, folders: BTreeMap::new() });
        };
        let damaged = |why: String| TrustError::Damaged { path: path.clone(), why };
        let text = match File::open(&path) {
            Ok(file) => {
                let mut text = String::new();
                let read = file.take(MAX_STORE).read_to_string(&mut text);
                read.map_err(|error| damaged(error.to_string()))?;
                text
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { path: Some(path), folders: BTreeMap::new() });
            }
            Err(error) => return Err(damaged(error.to_string())),
        };
        let stored: Stored =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if stored.version != VERSION {
            return Err(damaged(format!("it has version {}, not {VERSION}", stored.version)));
        }
        Ok(Self { path: Some(path), folders: stored.folders })
    }

    /// What was granted to exactly this folder, a canonical path. Neither a folder around it nor one
    /// inside it has a share in that.
    pub(crate) fn grant(&self, folder: &Path) -> Option<&Grant> {
        self.folders.get(folder.to_str()?)
    }

    /// Keeps a grant, or takes it back. What other processes kept in the meantime stays.
    pub(crate) fn set(&mut self, folder: &Path, grant: Option<Grant>) -> Result<(), TrustError> {
        let name = folder.to_str().ok_or_else(|| TrustError::Unnameable(folder.to_owned()))?;
        let path = self.path.clone().ok_or(TrustError::NoHome)?;
        let data_dir = path.parent().unwrap_or(Path::new("."));
        let unwritable = |error| TrustError::Unwritable { path: path.clone(), error };
        // Held until the file is replaced.
        let _lock = lock(data_dir).map_err(unwritable)?;
        let mut fresh = Self::read(Some(data_dir))?;
        match grant {
            Some(grant) => fresh.folders.insert(name.to_owned(), grant),
            None => fresh.folders.remove(name),
        };
        let stored = Stored { version: VERSION, folders: fresh.folders.clone() };
        let text = serde_json::to_string_pretty(&stored).expect("grants hold only texts");
        // A file that cannot be read back would take every other grant with it.
        if text.len() as u64 >= MAX_STORE {
            return Err(unwritable(io::Error::other("with this grant it is larger than 16 MiB")));
        }
        replace(&path, text.as_bytes()).map_err(unwritable)?;
        *self = fresh;
        Ok(())
    }
}

/// Waits until no other process changes the store. The lock lasts as long as the file is open.
fn lock(data_dir: &Path) -> io::Result<File> {
    fs::create_dir_all(data_dir)?;
    let file = File::create(data_dir.join("trust.lock"))?;
    file.lock()?;
    Ok(file)
}

/// Replaces the file as a whole, so that nobody ever sees half of it.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(text)?;
    file.write_all(b"\n")?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

/// Larger files are not what a command line of a repository runs, and a clone must not keep anvil
/// busy.
const MAX_NAMED_FILE: u64 = 32 << 20;

/// The same for all files together.
const MAX_NAMED_FILES: u64 = 4 * MAX_NAMED_FILE;

/// The digests of those `words` that name files inside `root`, a canonical path.
///
/// # Errors
/// A file that is there and cannot be read: what it will do is then not known.
pub(crate) fn hash_files(
    root: &Path,
    words: &BTreeSet<String>,
) -> io::Result<BTreeMap<String, String>> {
    hash_up_to(MAX_NAMED_FILES, root, words)
}

fn hash_up_to(
    mut left: u64,
    root: &Path,
    words: &BTreeSet<String>,
) -> io::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for word in words {
        let Ok(path) = root.join(word).canonicalize() else { continue };
        let Ok(inside) = path.strip_prefix(root) else { continue };
        if !path.is_file() {
            continue;
        }
        let name = inside.to_str().ok_or_else(|| {
            io::Error::other(format!("{word} leads to a name that is not valid UTF-8"))
        })?;
        // One file can be named in many ways.
        if !files.contains_key(name) {
            let mut content = Vec::new();
            File::open(&path)?.take(MAX_NAMED_FILE + 1).read_to_end(&mut content)?;
            if content.len() as u64 > MAX_NAMED_FILE {
                return Err(io::Error::other(format!("{word} is larger than 32 MiB")));
            }
            left = left.checked_sub(content.len() as u64).ok_or_else(|| {
                let why = "the files that are named are larger than 128 MiB together";
                io::Error::other(format!("{word}: {why}"))
            })?;
            files.insert(name.to_owned(), digest_of(&content));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(digest: &str) -> Grant {
        Grant { digest: digest.to_owned(), ..Grant::default() }
    }

    #[test]
    fn a_grant_is_for_one_folder_and_survives_in_a_private_file() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let mut store = TrustStore::read(Some(&data)).unwrap();
        store.set(Path::new("/w/repo"), Some(grant("sha256:1"))).unwrap();
        let store = TrustStore::read(Some(&data)).unwrap();
        assert_eq!(store.grant(Path::new("/w/repo")), Some(&grant("sha256:1")));
        for other in ["/w", "/w/repo/nested", "/w/repo2"] {
            assert_eq!(store.grant(Path::new(other)), None, "{other}");
        }
        let mode = fs::metadata(data.join("trust.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let left = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name());
        let left: BTreeSet<_> = left.collect();
        assert_eq!(left, ["trust.json", "trust.lock"].map(Into::into).into());
    }

    #[test]
    fn grants_that_are_given_at_the_same_time_are_all_kept() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for number in 0..16 {
                let mut store = TrustStore::read(Some(dir.path())).unwrap();
                scope.spawn(move || {
                    store.set(Path::new(&format!("/w/{number}")), Some(grant("sha256:1"))).unwrap();
                });
            }
        });
        assert_eq!(TrustStore::read(Some(dir.path())).unwrap().folders.len(), 16);
    }

    #[test]
    fn a_grant_too_large_to_be_read_back_is_refused_and_the_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = TrustStore::read(Some(dir.path())).unwrap();
        store.set(Path::new("/w/small"), Some(grant("sha256:1"))).unwrap();
        let huge = grant(&"x".repeat(MAX_STORE as usize));
        let error = store.set(Path::new("/w/huge"), Some(huge)).unwrap_err().to_string();
        assert!(error.contains("larger than 16 MiB"), "{error}");
        let store = TrustStore::read(Some(dir.path())).unwrap();
        assert_eq!(store.folders.keys().collect::<Vec<_>>(), ["/w/small"]);
    }

    #[test]
    fn a_grant_can_be_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = TrustStore::read(Some(dir.path())).unwrap();
        store.set(Path::new("/w"), Some(grant("sha256:1"))).unwrap();
        store.set(Path::new("/w"), None).unwrap();
        assert_eq!(TrustStore::read(Some(dir.path())).unwrap().grant(Path::new("/w")), None);
    }

    #[test]
    fn a_damaged_store_trusts_nobody_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trust.json");
        for text in ["", "{", "[]", "{\"version\":2,\"folders\":{}}", "\u{0}", "{\"version\":1}"] {
            fs::write(&path, text).unwrap();
            let error = TrustStore::read(Some(dir.path())).unwrap_err().to_string();
            assert!(error.contains("no folder is trusted"), "{text:?}: {error}");
        }
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(TrustStore::read(Some(dir.path())).is_err());
    }

    #[test]
    fn files_are_read_once_and_only_up_to_a_sum() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["a", "b", "c"] {
            fs::write(root.join(name), "12345").unwrap();
        }
        let hash = |words: &[&str]| {
            hash_up_to(10, &root, &words.iter().map(|word| (*word).to_owned()).collect())
        };
        assert_eq!(hash(&["a", "./a", ".//a", "././a"]).unwrap().len(), 1);
        assert_eq!(hash(&["a", "b"]).unwrap().len(), 2);
        let error = hash(&["a", "b", "c"]).unwrap_err().to_string();
        assert_eq!(error, "c: the files that are named are larger than 128 MiB together");
    }

    #[test]
    fn a_file_whose_name_cannot_be_kept_is_not_left_out() {
        use std::os::unix::ffi::OsStrExt as _;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let name = std::ffi::OsStr::from_bytes(b"\xff");
        fs::write(root.join(name), "x").unwrap();
        std::os::unix::fs::symlink(name, root.join("check.sh")).unwrap();
        let error = hash_files(&root, &["check.sh".to_owned()].into()).unwrap_err();
        assert!(error.to_string().contains("not valid UTF-8"), "{error}");
    }

    #[test]
    fn only_files_inside_the_folder_are_part_of_a_digest() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("repo").canonicalize().unwrap_or(dir.path().join("repo"));
        fs::create_dir(&root).unwrap();
        let root = root.canonicalize().unwrap();
        fs::write(dir.path().join("outside.sh"), "x").unwrap();
        fs::write(root.join("check.sh"), "x").unwrap();
        std::os::unix::fs::symlink("../outside.sh", root.join("link.sh")).unwrap();
        let words = ["./check.sh", "check.sh", "../outside.sh", "link.sh", "missing.sh", "."];
        let words = words.map(str::to_owned).into();
        let files = hash_files(&root, &words).unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["check.sh"]);
    }
}
