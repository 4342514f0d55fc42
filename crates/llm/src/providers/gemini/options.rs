//! What differs between the models that speak generateContent.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::schema::SchemaDialect;

/// Whether calls go back signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Signatures {
    /// The model refuses a step whose first call has no signature.
    #[default]
    Demanded,
    /// The model signs its calls as it likes and wants them back as they were. What another model
    /// called is a stranger's, and marked as such.
    Expected,
    /// The model does not know signatures.
    Unknown,
}

/// What differs between models that speak this dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GeminiOptions {
    /// How the arguments of tools are described.
    pub schemas: SchemaDialect,
    /// Whether calls go back signed.
    pub signatures: Signatures,
    /// Sends pictures that a tool produced beside the result instead of inside of it, which older
    /// models do not take.
    pub images_beside_results: bool,
}

impl GeminiOptions {
    /// What is known about the model; an unknown one is taken for one of the newest.
    pub fn for_model(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        let is_one = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
        let old = |signatures| Self { signatures, images_beside_results: true, ..Self::default() };
        if is_one(&["gemini-2.5"]) {
            old(Signatures::Expected)
        } else if is_one(&["gemini-1.", "gemini-2.", "gemini-pro-vision", "gemma", "learnlm"]) {
            old(Signatures::Unknown)
        } else {
            Self::default()
        }
    }

    /// What changes the bytes of a message besides the message: everything here but the schemas,
    /// which stand in the head, the model, and what `neighbours` hashes.
    pub(super) fn key(self, model: &str, neighbours: impl FnOnce(&mut DefaultHasher)) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.signatures.hash(&mut hasher);
        self.images_beside_results.hash(&mut hasher);
        model.hash(&mut hasher);
        neighbours(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(model: &str, signatures: Signatures, images_beside_results: bool) {
        let options = GeminiOptions::for_model(model);
        let got = (options.signatures, options.images_beside_results);
        assert_eq!(got, (signatures, images_beside_results), "{model}");
        assert_eq!(options.schemas, SchemaDialect::Full, "{model}");
    }

    #[test]
    fn the_generation_of_a_model_tells_what_it_takes() {
        check("gemini-3.1-pro-preview", Signatures::Demanded, false);
        check("gemini-3-flash", Signatures::Demanded, false);
        check("gemini-2.5-flash", Signatures::Expected, true);
        check("models/gemini-2.5-pro", Signatures::Expected, true);
        check("gemini-2.0-flash", Signatures::Unknown, true);
        check("Gemini-1.5-Pro", Signatures::Unknown, true);
        check("gemma-3-27b-it", Signatures::Unknown, true);
    }

    #[test]
    fn an_unknown_model_is_taken_for_one_of_the_newest() {
        check("gemini-flash-latest", Signatures::Demanded, false);
        check("gemini-11-pro", Signatures::Demanded, false);
        check("tunedModels/mine", Signatures::Demanded, false);
        check("", Signatures::Demanded, false);
    }
}
