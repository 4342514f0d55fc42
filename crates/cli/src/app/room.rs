//! Whether a local server has loaded a model with room for what every request holds.
//!
//! Such a server cuts what does not fit without a word, and then the model does not know its tools. It
//! tells its context only while the model is loaded, so it is asked at the start and again after a
//! turn, until it has told.

use llm::Registry;
use llm::config::builtin::MORE_CONTEXT;
use llm::registry::Named;

/// Bytes of English or JSON that make one token, as a rule of thumb.
const BYTES_A_TOKEN: u64 = 4;

/// Room for the least that can be called a task: a prompt, one file, an answer.
const FOR_WORK: u64 = 4_096;

/// The room that one model has.
pub(crate) struct Room {
    registry: Registry,
    named: Named,
    is_known: bool,
}

impl Room {
    /// Nothing is asked yet.
    pub(crate) fn new(registry: Registry, named: Named) -> Self {
        Self { registry, named, is_known: false }
    }

    /// What a person has to know about it, told once; `fixed` is the size in bytes of what every
    /// request holds. Servers that do not tell their context are asked nothing.
    pub(crate) async fn warning(&mut self, fixed: usize) -> Option<String> {
        if self.is_known {
            return None;
        }
        let context = self.registry.loaded_context(&self.named).await?;
        self.is_known = true;
        warning(&self.named.id, context, fixed)
    }
}

fn warning(model: &str, context: u64, fixed: usize) -> Option<String> {
    let taken = fixed as u64 / BYTES_A_TOKEN;
    (context < taken + FOR_WORK).then(|| {
        format!(
            "{model} is loaded with a context of {context} tokens, of which instructions and tools \
             take about {taken}: what does not fit is cut without a word; {MORE_CONTEXT}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_without_room_for_work_is_warned_about() {
        let told = warning("qwen3:8b", 4_096, 8_000).unwrap();
        assert!(told.contains("qwen3:8b") && told.contains("4096 tokens"), "{told}");
        assert!(told.contains("about 2000"), "{told}");
        assert!(warning("m", 6_095, 8_000).is_some());
        assert_eq!(warning("m", 6_096, 8_000), None);
    }
}
