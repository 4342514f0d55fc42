//! Which files nobody gets to see: masks in the words of `.gitignore`. [pure]

use std::borrow::Cow;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::AccessError;

/// Files that hold credentials by convention. Examples and templates of them stay visible.
pub const CREDENTIALS: &[&str] = &[
    ".env",
    ".env.*",
    "!.env.example",
    "!.env.sample",
    "!.env.template",
    "!.env.dist",
    "*.pem",
    "*.p12",
    "*.pfx",
    "*.ppk",
    "*.jks",
    "*.keystore",
    // Names that ssh-keygen gives and people extend. Not all that begins with id_, which much code does.
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "id_xmss*",
    "!id_*.pub",
    ".npmrc",
    ".pypirc",
    ".netrc",
    ".git-credentials",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".vault-token",
    "credentials.toml",
    ".aws/",
    ".ssh/",
    ".gnupg/",
    ".kube/",
    // A slash in the middle anchors a mask, and these lie in anybody's folder.
    "**/.config/gcloud/",
    "**/.docker/config.json",
    "**/.config/gh/hosts.yml",
    // An older name of cargo's.
    "**/.cargo/credentials",
];

/// A compiled list of masks.
#[derive(Debug, Clone)]
pub(crate) struct Masks(Gitignore);

impl Masks {
    /// Compiles lines as in `.gitignore`: the last match wins, `!` makes visible again, a slash
    /// anchors at the root, a folder hides all that is in it.
    ///
    /// # Errors
    /// [`AccessError::BadMask`].
    pub(crate) fn new(lines: &[String]) -> Result<Self, AccessError> {
        let bad = |error: ignore::Error| AccessError::BadMask(error.to_string());
        let mut builder = GitignoreBuilder::new("");
        for line in lines {
            // Lower case on both sides keeps the matcher's fast paths, which its own
            // case-insensitive mode gives up.
            builder.add_line(None, &line.to_lowercase()).map_err(bad)?;
        }
        Ok(Self(builder.build().map_err(bad)?))
    }

    /// Whether the path itself or a folder it lies in is masked. `relative` starts at a root.
    pub(crate) fn hide(&self, relative: &Path) -> bool {
        let path = lower(relative);
        let mut above = path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
        // What the path is does not matter to a refusal, so a mask of folders hides a file, too.
        self.0.matched(&path, true).is_ignore()
            || above.any(|dir| self.0.matched(dir, true).is_ignore())
    }

    /// Whether the path itself is masked, for walks that have already left out masked folders.
    pub(crate) fn hide_entry(&self, relative: &Path, is_dir: bool) -> bool {
        !self.0.is_empty() && self.0.matched(lower(relative), is_dir).is_ignore()
    }
}

fn lower(path: &Path) -> Cow<'_, Path> {
    // Nearly all paths of a walk are in lower case already.
    let is_lower = |byte: &u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    if path.as_os_str().as_encoded_bytes().iter().all(is_lower) {
        return Cow::Borrowed(path);
    }
    Cow::Owned(path.to_string_lossy().to_lowercase().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(lines: &[&str]) -> Masks {
        Masks::new(&lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_masked_folder_hides_everything_in_it_whatever_its_letter_case() {
        let masks = masks(&["secrets/**", "!keep.txt"]);
        assert!(masks.hide(Path::new("secrets/a/k")));
        assert!(masks.hide(Path::new("SECRETS/k")));
        assert!(!masks.hide(Path::new("src/secrets.rs")));
    }

    #[test]
    fn nothing_inside_a_masked_folder_is_made_visible_again() {
        let masks = masks(&["/private/", "!open.txt"]);
        assert!(masks.hide(Path::new("private/open.txt")));
        assert!(!masks.hide(Path::new("src/private/open.txt")), "anchored at the root");
    }

    #[test]
    fn credential_files_are_masked_and_their_examples_are_not() {
        let masks = masks(CREDENTIALS);
        for hidden in [
            ".env",
            "web/.env.local",
            "key.PEM",
            ".ssh/config",
            "a/.aws/credentials",
            "a/.docker/config.json",
            "deploy/id_ed25519_server",
            "ID_RSA",
            ".cargo/credentials.toml",
            "conf/credentials.toml",
            ".pgpass",
        ] {
            assert!(masks.hide(Path::new(hidden)), "{hidden}");
        }
        for seen in [
            ".env.example",
            "src/env.rs",
            "src/id_generator.rs",
            ".envrc",
            "pem.rs",
            "id_rsa.pub",
            "keys/id_ed25519_server.pub",
            "src/credentials.rs",
        ] {
            assert!(!masks.hide(Path::new(seen)), "{seen}");
        }
    }

    #[test]
    fn a_mask_that_is_no_pattern_is_an_error() {
        assert!(matches!(Masks::new(&["{a".to_owned()]), Err(AccessError::BadMask(_))));
    }
}
