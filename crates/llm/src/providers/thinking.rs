//! How deep a request asks the model to think, as the target can be told; pure.

use crate::capability::{Effort, Target, ThinkingStyle};
use crate::types::ChatRequest;

/// The least budget that Anthropic Messages takes.
pub(super) const LEAST_BUDGET: u32 = 1_024;

/// A depth that was asked for, in all the words that a target may have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depth {
    /// Whether the model is not to think at all.
    pub(crate) off: bool,
    /// The nearest effort that the target knows by name.
    pub(crate) effort: Option<Effort>,
    /// Tokens of thought.
    pub(crate) budget: u32,
    /// Whether it was the budget that was asked for.
    pub(crate) is_budget: bool,
}

/// The depth that a request asks for; nothing where the target cannot be asked, or nobody asks.
pub(crate) fn depth(req: &ChatRequest, target: Target) -> Option<Depth> {
    if target.thinking == ThinkingStyle::None {
        return None;
    }
    let wanted = req.effort.or_else(|| req.thinking_budget.map(Effort::of_budget))?;
    let off = req.thinking_budget.map_or(wanted == Effort::None, |budget| budget == 0);
    Some(Depth {
        off,
        effort: target.efforts.nearest(if off { Effort::None } else { wanted }),
        budget: req.thinking_budget.unwrap_or(wanted.budget()),
        is_budget: req.thinking_budget.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::{Dialect, target};

    fn asked(model: &str, effort: Option<Effort>, thinking_budget: Option<u32>) -> Option<Depth> {
        let req = ChatRequest { effort, thinking_budget, ..ChatRequest::default() };
        depth(&req, target(Dialect::Anthropic, None, "", model))
    }

    #[test]
    fn nothing_is_asked_unless_someone_asks_and_the_target_can_be_asked() {
        assert_eq!(asked("claude-sonnet-5", None, None), None);
        assert_eq!(asked("claude-3-haiku", Some(Effort::High), None), None);
    }

    #[test]
    fn an_effort_has_a_budget_and_a_budget_an_effort() {
        let depth = asked("claude-sonnet-5", Some(Effort::Minimal), None).unwrap();
        assert_eq!((depth.effort, depth.budget, depth.off), (Some(Effort::Low), 1_024, false));
        let depth = asked("claude-sonnet-5", None, Some(10_000)).unwrap();
        assert_eq!((depth.effort, depth.budget), (Some(Effort::High), 10_000));
    }

    #[test]
    fn no_thought_is_asked_for_in_either_word() {
        assert!(asked("claude-sonnet-5", Some(Effort::None), None).unwrap().off);
        assert!(asked("claude-sonnet-5", None, Some(0)).unwrap().off);
        assert!(!asked("claude-sonnet-5", Some(Effort::None), Some(2_000)).unwrap().off);
    }
}
