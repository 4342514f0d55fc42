//! Replaces a file by a complete new one, or leaves everything as it was.
//!
//! The new content is written beside the old file, without a name where the system has unnamed files,
//! reaches the disk, gets the old permission bits and only then takes the name. A crash, a kill or a
//! full disk leaves the old file. Only a crash or a kill between naming the new file and renaming it
//! over the old one leaves a stray beside it on Linux; elsewhere any crash before that does.
//!
//! New and old file exchange their names in one step, and what was displaced is looked at afterwards: if it is
//! not what the change was made from, the names are exchanged back, so that no other program's change is lost
//! however late it came. A crash between the two steps leaves the old content beside the new one. Where the
//! file system knows no exchange, some microseconds remain between the last look and the renaming.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;

use super::open::{self, OpenError};
use super::way::Way;
use crate::digest::{Digest, Hasher};

/// The mode of a draft until it has the old file's.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// What must be at the place when the new file takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// A file with this content.
    Content(Digest),
}

/// What a replacement met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaced {
    /// Further names (hard links) of the old file. They keep the old content.
    pub other_links: u64,
}

/// Why nothing was replaced.
#[derive(Debug)]
pub(super) enum ReplaceError {
    Changed,
    Exists,
    Open(OpenError),
}

impl<E: Into<OpenError>> From<E> for ReplaceError {
    fn from(error: E) -> Self {
        Self::Open(error.into())
    }
}

/// Puts `content` at `path`, which the way's root holds.
pub(super) fn replace(
    way: &Way<'_>,
    path: &Path,
    content: &[u8],
    expect: Expect,
) -> Result<Replaced, ReplaceError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(OpenError::Directory.into());
    };
    let name = Path::new(name);
    match expect {
        Expect::Absent => create(way, parent, name, content),
        Expect::Content(digest) => overwrite(way.reach(parent)?.folder(), name, content, digest),
    }
}

fn create(
    way: &Way<'_>,
    parent: &Path,
    name: &Path,
    content: &[u8],
) -> Result<Replaced, ReplaceError> {
    let reached = way.make(parent)?;
    // The mode that any new file gets; the system takes the umask off.
    let mut draft = Draft::new(reached.folder(), Mode::from_raw_mode(0o666))?;
    draft.fill(content)?;
    draft.publish_new(name)?;
    reached.keep();
    Ok(Replaced { other_links: 0 })
}

fn overwrite(
    folder: &OwnedFd,
    name: &Path,
    content: &[u8],
    expected: Digest,
) -> Result<Replaced, ReplaceError> {
    let old = open_expected(folder, name)?;
    // Renaming needs no right to the file itself, so a read-only file would otherwise be replaced.
    rustix::fs::accessat(folder, name, Access::WRITE_OK, AtFlags::empty())?;
    let mut draft = Draft::new(folder, PRIVATE)?;
    draft.fill(content)?;
    let metadata = old.metadata()?;
    draft.take_over_owner_and_mode(metadata.uid(), metadata.gid(), metadata.mode())?;
    if hash(open_expected(folder, name)?)? != expected {
        return Err(ReplaceError::Changed);
    }
    draft.exchange(name, expected)?;
    Ok(Replaced { other_links: metadata.nlink().saturating_sub(1) })
}

/// Opens the file that is to be replaced; one that is gone has changed.
fn open_expected(folder: &OwnedFd, name: &Path) -> Result<File, ReplaceError> {
    open::regular_in(folder, name).map_err(|error| match error {
        OpenError::Io(io) if io.kind() == io::ErrorKind::NotFound => ReplaceError::Changed,
        other => ReplaceError::Open(other),
    })
}

fn hash(mut file: File) -> io::Result<Digest> {
    let mut hasher = Hasher::default();
    let mut piece = vec![0; 64 * 1024];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(&piece[..read]),
        }
    }
}

/// A file in the making: unnamed where possible, else under a name nobody else has.
struct Draft<'f> {
    folder: &'f OwnedFd,
    file: File,
    name: Option<PathBuf>,
}

impl<'f> Draft<'f> {
    fn new(folder: &'f OwnedFd, mode: Mode) -> io::Result<Self> {
        if let Some(file) = unnamed(folder, mode)? {
            return Ok(Self { folder, file, name: None });
        }
        let name = fresh_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(folder, &name, flags, mode)?);
        Ok(Self { folder, file, name: Some(name) })
    }

    fn fill(&mut self, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)?;
        self.file.sync_all()
    }

    /// Never wider than the old file was: with another group, the group's rights shrink to everybody's.
    /// Set-user-id and set-group-id bits are dropped, as they are by writing to a file in place.
    fn take_over_owner_and_mode(&self, uid: u32, gid: u32, mode: u32) -> io::Result<()> {
        let ours = self.file.metadata()?;
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        let mut mode = mode & 0o777;
        if ours.uid() != uid.as_raw() || ours.gid() != gid.as_raw() {
            // An ordinary user may give a file to a group of his but not to another user.
            let given = rustix::fs::fchown(&self.file, Some(uid), Some(gid)).is_ok()
                || rustix::fs::fchown(&self.file, None, Some(gid)).is_ok();
            if !given {
                mode &= !0o070 | ((mode & 0o007) << 3);
            }
        }
        // st_mode's type differs between systems; the nine bits fit any.
        Ok(rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode as _))?)
    }

    /// Takes a name that must be free.
    fn publish_new(mut self, name: &Path) -> Result<(), ReplaceError> {
        match self.name.take() {
            None => match self.link(name) {
                Err(Errno::EXIST) => Err(ReplaceError::Exists),
                linked => Ok(linked?),
            },
            Some(own) => {
                match self.rename(&own, name, RenameFlags::NOREPLACE) {
                    Ok(()) => return Ok(()),
                    Err(Errno::EXIST) => {
                        self.name = Some(own);
                        return Err(ReplaceError::Exists);
                    }
                    // File systems and systems that do not know it.
                    Err(_) => {}
                }
                // A hard link refuses an existing name, which renaming would replace.
                let linked =
                    rustix::fs::linkat(self.folder, &own, self.folder, name, AtFlags::empty());
                self.name = Some(own);
                match linked {
                    Err(Errno::EXIST) => Err(ReplaceError::Exists),
                    // File systems without hard links.
                    Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => self.publish_over(name),
                    linked => Ok(linked?),
                }
            }
        }
    }

    /// Takes a name from the file that has it, if that file has the `expected` content.
    fn exchange(mut self, name: &Path, expected: Digest) -> Result<(), ReplaceError> {
        let own = self.named()?;
        match self.rename(&own, name, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Err(ReplaceError::Changed),
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => return self.publish_over(name),
            Err(error) => return Err(error.into()),
        }
        // What was displaced goes with this draft, unless it is somebody's.
        let displaced = open_expected(self.folder, &own).and_then(|old| Ok(hash(old)?));
        match displaced {
            Ok(digest) if digest == expected => Ok(()),
            _ => {
                self.rename(&own, name, RenameFlags::EXCHANGE)?;
                Err(ReplaceError::Changed)
            }
        }
    }

    /// Takes a name from the file that has it, whatever it holds.
    fn publish_over(mut self, name: &Path) -> Result<(), ReplaceError> {
        let own = self.named()?;
        rustix::fs::renameat(self.folder, &own, self.folder, name)?;
        self.name = None;
        Ok(())
    }

    /// The draft's own name, which an unnamed one gets now.
    fn named(&mut self) -> io::Result<PathBuf> {
        if let Some(own) = &self.name {
            return Ok(own.clone());
        }
        let own = fresh_name();
        self.link(&own)?;
        self.name = Some(own.clone());
        Ok(own)
    }

    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    fn rename(&self, from: &Path, to: &Path, how: RenameFlags) -> rustix::io::Result<()> {
        rustix::fs::renameat_with(self.folder, from, self.folder, to, how)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    fn rename(&self, _from: &Path, _to: &Path, _how: RenameFlags) -> rustix::io::Result<()> {
        Err(Errno::NOSYS)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn link(&self, name: &Path) -> rustix::io::Result<()> {
        use std::os::fd::AsRawFd as _;

        // The way of open(2), O_TMPFILE; linking by descriptor alone needs a capability.
        let unnamed = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(rustix::fs::CWD, unnamed, self.folder, name, AtFlags::SYMLINK_FOLLOW)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn link(&self, _name: &Path) -> rustix::io::Result<()> {
        Err(Errno::OPNOTSUPP)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // The error that led here is the one that is reported.
            if let Err(error) = rustix::fs::unlinkat(self.folder, name, AtFlags::empty()) {
                tracing::warn!(file = %name.display(), %error, "a temporary file stays behind");
            }
        }
    }
}

/// An unnamed file in `folder`, or none where the system or the file system has no such thing.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn unnamed(folder: &OwnedFd, mode: Mode) -> io::Result<Option<File>> {
    // Naming it later goes through /proc, which a bare chroot may lack.
    if !Path::new("/proc/self/fd").exists() {
        return Ok(None);
    }
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::openat(folder, ".", flags, mode) {
        Ok(fd) => Ok(Some(File::from(fd))),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn unnamed(_folder: &OwnedFd, _mode: Mode) -> io::Result<Option<File>> {
    Ok(None)
}

/// Short enough for any file system, whatever the length of the target's name.
fn fresh_name() -> PathBuf {
    PathBuf::from(format!(".anvil-{}.tmp", uuid::Uuid::new_v4().simple()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// A draft as systems without unnamed files have it.
    fn named_draft(folder: &OwnedFd) -> Draft<'_> {
        let name = fresh_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, &name, flags, PRIVATE).unwrap();
        Draft { folder, file: File::from(file), name: Some(name) }
    }

    #[test]
    fn both_kinds_of_draft_take_a_free_name_and_refuse_a_taken_one() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        let folder = open::root(&real).unwrap();
        for (draft, name) in
            [(Draft::new(&folder, PRIVATE).unwrap(), "a"), (named_draft(&folder), "b")]
        {
            let mut draft = draft;
            draft.fill(b"new").unwrap();
            draft.publish_new(Path::new(name)).unwrap();
            assert_eq!(fs::read(real.join(name)).unwrap(), b"new");
        }
        for draft in [Draft::new(&folder, PRIVATE).unwrap(), named_draft(&folder)] {
            let error = draft.publish_new(Path::new("a")).unwrap_err();
            assert!(matches!(error, ReplaceError::Exists), "{error:?}");
        }
        assert_eq!(names(&real), ["a", "b"], "nothing else is left");
    }

    #[test]
    fn both_kinds_of_draft_replace_and_leave_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        let folder = open::root(&real).unwrap();
        for draft in [Draft::new(&folder, PRIVATE).unwrap(), named_draft(&folder)] {
            fs::write(real.join("a"), "old").unwrap();
            let mut draft = draft;
            draft.fill(b"new").unwrap();
            draft.publish_over(Path::new("a")).unwrap();
            assert_eq!(fs::read(real.join("a")).unwrap(), b"new");
        }
        drop(named_draft(&folder));
        drop(Draft::new(&folder, PRIVATE).unwrap());
        assert_eq!(names(&real), ["a"]);
    }

    #[test]
    fn a_draft_is_private_until_it_has_the_old_mode() {
        let dir = tempfile::tempdir().unwrap();
        let folder = open::root(&dir.path().canonicalize().unwrap()).unwrap();
        let draft = Draft::new(&folder, PRIVATE).unwrap();
        let mode = |draft: &Draft<'_>| draft.file.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&draft) & 0o077, 0);
        let ours = draft.file.metadata().unwrap();
        draft.take_over_owner_and_mode(ours.uid(), ours.gid(), 0o104_751).unwrap();
        assert_eq!(mode(&draft), 0o751);
    }

    #[test]
    fn folders_made_for_a_file_that_fails_are_taken_away_again() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        let name = "n".repeat(300);
        let folder = open::root(&real).unwrap();
        let path = Path::new("a/b").join(name);
        let error = replace(&Way::new(&folder, &[]), &path, b"x", Expect::Absent).unwrap_err();
        assert!(matches!(error, ReplaceError::Open(OpenError::Io(_))), "{error:?}");
        assert!(names(&real).is_empty());
    }

    #[test]
    fn a_change_after_the_read_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        let (file, folder) = (real.join("a"), open::root(&real).unwrap());
        let replace = |expect| replace(&Way::new(&folder, &[]), Path::new("a"), b"ours", expect);
        fs::write(&file, "theirs").unwrap();
        let expect = Expect::Content(Digest::of(b"as read"));
        assert!(matches!(replace(expect), Err(ReplaceError::Changed)));
        assert_eq!(fs::read(&file).unwrap(), b"theirs");
        fs::remove_file(&file).unwrap();
        assert!(matches!(replace(expect), Err(ReplaceError::Changed)));
        assert!(names(file.parent().unwrap()).is_empty());
    }

    #[test]
    fn a_change_in_the_last_moment_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        let folder = open::root(&real).unwrap();
        for kind in ["file", "folder", "none"] {
            let mut draft = Draft::new(&folder, PRIVATE).unwrap();
            draft.fill(b"ours").unwrap();
            // After the last look, before the exchange.
            match kind {
                "file" => fs::write(real.join("a"), "theirs").unwrap(),
                "folder" => fs::create_dir(real.join("a")).unwrap(),
                _ => {}
            }
            let error = draft.exchange(Path::new("a"), Digest::of(b"as read")).unwrap_err();
            assert!(matches!(error, ReplaceError::Changed), "{kind}: {error:?}");
            match kind {
                "file" => {
                    assert_eq!(fs::read(real.join("a")).unwrap(), b"theirs");
                    fs::remove_file(real.join("a")).unwrap();
                }
                "folder" => fs::remove_dir(real.join("a")).unwrap(),
                _ => {}
            }
            assert!(names(&real).is_empty(), "{kind}: something is left");
        }
    }
}
