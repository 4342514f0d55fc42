//! Builds the files that a case starts from.

use std::ffi::OsString;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;

/// One thing to build, at a path below the base folder of the case.
#[derive(Debug, Deserialize)]
#[serde(tag = "make", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Step {
    File {
        path: String,
        #[serde(flatten)]
        content: Content,
    },
    FileB64 {
        path: String,
        b64: String,
        mode: Option<String>,
    },
    /// A file whose name is not UTF-8.
    FileB64name {
        b64: String,
        #[serde(default)]
        text: String,
    },
    Dir {
        path: String,
        mode: Option<String>,
    },
    Symlink {
        path: String,
        target: String,
    },
    Hardlink {
        path: String,
        target: String,
    },
    Fifo {
        path: String,
    },
    /// A file that is all hole.
    Sparse {
        path: String,
        size: u64,
    },
    /// Numbered small files in a folder.
    Many {
        path: String,
        count: usize,
    },
    Chmod {
        path: String,
        mode: String,
    },
}

/// What is in a file: a text, or a repeated piece with an end.
#[derive(Debug, Deserialize)]
pub(super) struct Content {
    #[serde(default)]
    text: String,
    #[serde(default)]
    repeat: String,
    #[serde(default)]
    times: usize,
    #[serde(default)]
    then: String,
    #[serde(default)]
    then_b64: String,
    mode: Option<String>,
}

impl Step {
    /// Builds it.
    pub(super) fn make(&self, base: &Path) {
        match self {
            Self::File { path, content } => {
                let path = parent_made(base, path);
                content.write(&path);
                set_mode(&path, content.mode.as_deref());
            }
            Self::FileB64 { path, b64, mode } => {
                let path = parent_made(base, path);
                fs::write(&path, BASE64.decode(b64).unwrap()).unwrap();
                set_mode(&path, mode.as_deref());
            }
            Self::FileB64name { b64, text } => {
                let name = OsString::from_vec(BASE64.decode(b64).unwrap());
                fs::write(base.join(name), text).unwrap();
            }
            Self::Dir { path, mode } => {
                fs::create_dir_all(base.join(path)).unwrap();
                set_mode(&base.join(path), mode.as_deref());
            }
            Self::Symlink { path, target } => symlink(target, parent_made(base, path)).unwrap(),
            Self::Hardlink { path, target } => {
                fs::hard_link(base.join(target), parent_made(base, path)).unwrap();
            }
            Self::Fifo { path } => {
                let mode = nix::sys::stat::Mode::S_IRWXU;
                nix::unistd::mkfifo(&parent_made(base, path), mode).unwrap();
            }
            Self::Sparse { path, size } => {
                fs::File::create(parent_made(base, path)).unwrap().set_len(*size).unwrap();
            }
            Self::Many { path, count } => {
                for number in 0..*count {
                    fs::write(parent_made(base, &format!("{path}/{number}")), "x\n").unwrap();
                }
            }
            Self::Chmod { path, mode } => set_mode(&base.join(path), Some(mode)),
        }
    }
}

impl Content {
    /// In pieces, so that building a large file does not count as the tool's memory.
    fn write(&self, path: &Path) {
        let mut file = BufWriter::new(fs::File::create(path).unwrap());
        file.write_all(self.text.as_bytes()).unwrap();
        for _ in 0..self.times {
            file.write_all(self.repeat.as_bytes()).unwrap();
        }
        file.write_all(self.then.as_bytes()).unwrap();
        file.write_all(&BASE64.decode(&self.then_b64).unwrap()).unwrap();
        file.flush().unwrap();
    }
}

fn parent_made(base: &Path, path: &str) -> PathBuf {
    let path = base.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

fn set_mode(path: &Path, mode: Option<&str>) {
    if let Some(mode) = mode {
        let mode = u32::from_str_radix(mode, 8).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
}
