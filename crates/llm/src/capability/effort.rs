//! How hard a model is asked to think, and which of that it can be asked for; pure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How hard a model thinks before it answers, in the words of the services.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Not at all.
    None,
    /// Hardly.
    Minimal,
    /// A little.
    Low,
    /// As most tasks need.
    Medium,
    /// Thoroughly.
    High,
    /// More than that.
    Xhigh,
    /// As hard as it can.
    Max,
}

impl Effort {
    const ALL: [Self; 7] =
        [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Xhigh, Self::Max];

    /// The tokens of thought that stand for it where a budget is all there is. The steps are ours:
    /// no service says what its words mean.
    pub(crate) const fn budget(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Minimal => 1_024,
            Self::Low => 4_096,
            Self::Medium => 8_192,
            Self::High => 16_384,
            Self::Xhigh => 24_576,
            Self::Max => 32_768,
        }
    }

    /// The word that stands for a budget where words are all there is: the least whose own budget
    /// reaches it.
    pub(crate) fn of_budget(tokens: u32) -> Self {
        Self::ALL.into_iter().find(|effort| effort.budget() >= tokens).unwrap_or(Self::Max)
    }
}

/// A set of efforts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Vec<Effort>", into = "Vec<Effort>")]
#[schemars(with = "Vec<Effort>")]
pub struct Efforts(u8);

impl Efforts {
    /// No effort at all.
    pub const EMPTY: Self = Self(0);

    /// The set of `efforts`.
    pub const fn of(efforts: &[Effort]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < efforts.len() {
            bits |= 1 << efforts[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    /// Whether it is one of them.
    pub const fn contains(self, effort: Effort) -> bool {
        self.0 & (1 << effort as u8) != 0
    }

    /// The one that comes nearest to what is wanted: itself, else the next one below, else the least
    /// above. Thinking is not turned off unless that is wanted.
    pub(crate) fn nearest(self, wanted: Effort) -> Option<Effort> {
        let known = || Effort::ALL.into_iter().filter(|effort| self.contains(*effort));
        let below = known().rfind(|effort| {
            *effort <= wanted && (*effort != Effort::None || wanted == Effort::None)
        });
        below.or_else(|| known().find(|effort| *effort > wanted))
    }
}

impl From<Vec<Effort>> for Efforts {
    fn from(efforts: Vec<Effort>) -> Self {
        Self::of(&efforts)
    }
}

impl From<Efforts> for Vec<Effort> {
    fn from(efforts: Efforts) -> Self {
        Effort::ALL.into_iter().filter(|effort| efforts.contains(*effort)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Effort::{High, Low, Max, Medium, Minimal, None, Xhigh};
    use super::*;

    #[test]
    fn a_word_that_a_model_does_not_know_becomes_the_nearest_below() {
        #[track_caller]
        fn check(known: &[Effort], wanted: Effort, want: Option<Effort>) {
            assert_eq!(Efforts::of(known).nearest(wanted), want, "{known:?} {wanted:?}");
        }
        check(&[None, Low, Medium, High], Xhigh, Some(High));
        check(&[None, Low, High], Medium, Some(Low));
        check(&[None, Low, High], Low, Some(Low));
        check(&[Low, High, Max], None, Some(Low));
        check(&[None, High], Minimal, Some(High));
        check(&[None, High], None, Some(None));
        check(&[Medium], Low, Some(Medium));
        check(&[], Low, Option::None);
    }

    #[test]
    fn budgets_and_words_stand_for_each_other() {
        for effort in Effort::ALL {
            assert_eq!(Effort::of_budget(effort.budget()), effort);
        }
        assert_eq!(Effort::of_budget(1), Minimal);
        assert_eq!(Effort::of_budget(8_000), Medium);
        assert_eq!(Effort::of_budget(u32::MAX), Max);
    }

    #[test]
    fn a_set_is_written_as_a_list() {
        let set: Efforts = serde_json::from_str(r#"["high","none"]"#).unwrap();
        assert_eq!(set, Efforts::of(&[None, High]));
        assert_eq!(serde_json::to_string(&set).unwrap(), r#"["none","high"]"#);
        assert!(serde_json::from_str::<Efforts>(r#"["huge"]"#).is_err());
    }
}
