//! Which variables a confined command finds: those it was given, with places that it can write.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What a confined command is given of `env`, where `temporary` is its place for temporary files and
/// `readable` is shown of the home.
pub(super) fn inside(
    env: Vec<(OsString, OsString)>,
    temporary: &Path,
    readable: &[PathBuf],
    has_network: bool,
) -> Vec<(OsString, OsString)> {
    let mut inner = environment(with_plain_path(env), temporary, has_network);
    inner.extend(caches(&inner, temporary, readable, has_network));
    inner
}

/// The environment inside, with temporary files where there is a place for them.
fn environment(
    env: Vec<(OsString, OsString)>,
    temporary: &Path,
    has_network: bool,
) -> Vec<(OsString, OsString)> {
    let is_set = |wanted: &str| env.iter().any(|(name, _)| name == wanted);
    let says_offline = is_set("CARGO_NET_OFFLINE");
    let mut inner: Vec<_> = env.into_iter().filter(|(name, _)| name != "TMPDIR").collect();
    inner.push(("TMPDIR".into(), temporary.into()));
    // Says at once what would otherwise be found out after several tries.
    if !has_network && !says_offline {
        inner.push(("CARGO_NET_OFFLINE".into(), "true".into()));
    }
    inner
}

/// Places in `temporary` for the caches of tools that do nothing at all where they cannot write theirs. A cache
/// that the home shows serves those that can live with reading it.
fn caches(
    env: &[(OsString, OsString)],
    temporary: &Path,
    readable: &[PathBuf],
    has_network: bool,
) -> Vec<(OsString, OsString)> {
    let is_set = |wanted: &str| env.iter().any(|(name, _)| name == wanted);
    let is_shown = |end: &str| readable.iter().any(|path| path.ends_with(end));
    let wanted = [
        // Locks it also for reading.
        ("UV_CACHE_DIR", "uv-cache", true),
        ("GOCACHE", "go-build", !is_shown(".cache/go-build")),
        // Installs from it without writing, but puts into it whatever it fetches.
        ("npm_config_cache", "npm-cache", has_network),
    ];
    let missing = wanted.into_iter().filter(|(name, _, is_of_use)| *is_of_use && !is_set(name));
    missing.map(|(name, dir, _)| (name.into(), temporary.join(dir).into())).collect()
}

/// The environment with a `PATH` that means the same in every folder.
///
/// Folders of the workspace stay: a virtual environment or a project's own tools are on the path because
/// their user put them there. Rules that allow a program do not mean theirs, and a shell is never taken from
/// there (see `bash_in`).
pub(super) fn with_plain_path(mut env: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
    for (_, path) in env.iter_mut().filter(|(name, _)| name == "PATH") {
        let folders = std::env::split_paths(path).filter(|dir| dir.is_absolute());
        // They were joined by the same sign.
        *path = std::env::join_paths(folders).unwrap_or_default();
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_inside_has_a_place_for_temporary_files_and_says_that_it_is_offline() {
        let env = [("TMPDIR", "/var/folders/x"), ("HOME", "/h")];
        let env: Vec<_> = env.iter().map(|(n, v)| (n.into(), v.into())).collect();
        let get = |network, name: &str| {
            let inner = environment(env.clone(), Path::new("/tmp"), network);
            inner.into_iter().find(|(n, _)| n == name).map(|(_, value)| value)
        };
        assert_eq!(get(true, "TMPDIR"), Some("/tmp".into()));
        assert_eq!(get(true, "HOME"), Some("/h".into()));
        assert_eq!(get(true, "CARGO_NET_OFFLINE"), None);
        assert_eq!(get(false, "CARGO_NET_OFFLINE"), Some("true".into()));
    }

    #[test]
    fn tools_that_need_a_cache_of_their_own_get_one_where_there_is_room() {
        let names = |env: &[&str], readable: &[&str], has_network| {
            let env: Vec<_> = env.iter().map(|name| (name.into(), "/x".into())).collect();
            let readable: Vec<_> = readable.iter().map(PathBuf::from).collect();
            let found = caches(&env, Path::new("/tmp"), &readable, has_network).into_iter();
            found.map(|(name, _)| name.into_string().expect("a name is text")).collect::<Vec<_>>()
        };
        assert_eq!(names(&[], &[], true), ["UV_CACHE_DIR", "GOCACHE", "npm_config_cache"]);
        assert_eq!(names(&[], &["/h/.cache/go-build"], false), ["UV_CACHE_DIR"]);
        assert_eq!(names(&["UV_CACHE_DIR", "GOCACHE"], &[], false), Vec::<String>::new());
    }
}
