//! Long pastes in the line editor: a chip stands in the line for each, and gives way to it when the line is
//! entered.
//!
//! The editor knows no such thing, so a chip is text to it. Keys that take away what stands beside the cursor
//! take all of it, and in the middle of it nothing can be typed. One that is broken nevertheless is what it
//! looks like then: text.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agent::paste::{self, Part};
use rustyline::{
    CharSearch, Cmd, ConditionalEventHandler, Event, EventContext, KeyCode, KeyEvent, Modifiers,
    Movement, RepeatCount,
};

/// How long nothing may have come of a paste for a Ctrl-C to be a key: inside of one, characters come closer
/// together, also over a slow line.
const STALLED: Duration = Duration::from_millis(500);

/// The pastes of the line that is being edited.
#[derive(Clone, Default)]
pub(super) struct Chips {
    shared: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    /// How many pastes the session holds.
    before: usize,
    pastes: Vec<Pasted>,
    /// What has come of a paste whose end has not.
    coming: Option<Coming>,
}

/// A paste whose end has not come.
struct Coming {
    text: String,
    /// When something of it came last.
    since: Instant,
}

impl Coming {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), since: Instant::now() }
    }
}

/// A paste and what stands for it in the line.
struct Pasted {
    chip: String,
    payload: String,
}

impl Chips {
    /// A new line begins in a session with so many pastes; `draft` stands in it. Returns what the editor
    /// shows of that.
    pub(super) fn begin(&self, draft: &str, before: usize) -> String {
        let mut known = self.known();
        *known = Known { before, ..Known::default() };
        let mut line = String::new();
        for part in paste::parts(draft) {
            match part {
                Part::Typed(text) => line.push_str(text),
                Part::Pasted(payload) => {
                    let chip = known.chip(payload, &line);
                    line.push_str(&chip);
                }
            }
        }
        line
    }

    /// What was said with a line: what was pasted between its marks, and no other mark.
    pub(super) fn said(&self, line: &str) -> String {
        let known = self.known();
        let (mut said, mut rest) = (String::new(), line);
        let next = |rest: &str| {
            let found = known.pastes.iter().filter_map(|one| Some((rest.find(&one.chip)?, one)));
            found.min_by_key(|(at, _)| *at)
        };
        while let Some((at, one)) = next(rest) {
            said.push_str(&paste::typed(&rest[..at]));
            said.push_str(&paste::embed(&one.payload));
            rest = &rest[at + one.chip.len()..];
        }
        said + &paste::typed(rest)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Takes a paste in; returns what stands for it in `line`.
    fn chip(&mut self, payload: &str, line: &str) -> String {
        let is_free = |number: &usize| !line.contains(&format!("[paste #{number} "));
        let number = (self.before + 1..).find(is_free).expect("a line is shorter than all numbers");
        let chip = paste::chip(number, payload);
        self.pastes.retain(|one| one.chip != chip);
        self.pastes.push(Pasted { chip: chip.clone(), payload: payload.to_owned() });
        chip
    }

    /// What puts in the paste that ended, with the cursor at `at`.
    fn end(&mut self, line: &str, at: usize) -> Cmd {
        let pasted = paste::normalize(&self.coming.take().map_or_else(String::new, |one| one.text));
        if pasted.is_empty() {
            return Cmd::Noop;
        }
        let text = match paste::is_long(&pasted) {
            true => self.chip(&pasted, line),
            false => pasted,
        };
        match self.start_of_chip_at(line, at) {
            // In the middle of a chip: before it, and the cursor stays where it is.
            Some(start) => {
                let before = format!("{}{text}{}", &line[..start], &line[start..at]);
                Cmd::Replace(Movement::BeginningOfBuffer, Some(before))
            }
            None => Cmd::Insert(1, text),
        }
    }

    /// Where the chip begins in the middle of which the cursor stands.
    fn start_of_chip_at(&self, line: &str, at: usize) -> Option<usize> {
        let is_inside = |start: &usize, chip: &str| *start < at && at < start + chip.len();
        self.pastes.iter().find_map(|one| {
            let mut starts = line.match_indices(&one.chip).map(|(start, _)| start);
            starts.find(|start| is_inside(start, &one.chip))
        })
    }

    /// Where the cursor stands, if that matters.
    fn place(&self, line: &str, at: usize) -> Option<Place> {
        let places = self.pastes.iter().flat_map(|one| {
            let starts = line.match_indices(&one.chip).map(|(start, _)| start);
            starts.filter_map(move |start| match at.checked_sub(start)? {
                0 => Some(Place::Before),
                beyond if beyond == one.chip.len() => Some(Place::Behind),
                beyond if beyond < one.chip.len() => Some(Place::Inside),
                _ => None,
            })
        });
        // Between two chips the one before is meant by some keys, and the one behind by others.
        places.reduce(|one, other| if one == other { one } else { Place::Between })
    }

    fn press(&mut self, key: KeyEvent, line: &str, at: usize) -> Option<Cmd> {
        if self.coming.is_some() {
            return Some(self.paste(key, line, at));
        }
        if key == KeyEvent(KeyCode::BracketedPasteStart, Modifiers::NONE) {
            self.coming = Some(Coming::new(""));
            return Some(Cmd::Noop);
        }
        beside(self.place(line, at)?, key)
    }

    /// A key inside a paste.
    fn paste(&mut self, key: KeyEvent, line: &str, at: usize) -> Cmd {
        let coming = self.coming.get_or_insert_with(|| Coming::new(""));
        let paused = std::mem::replace(&mut coming.since, Instant::now()).elapsed();
        let c = match key {
            KeyEvent(KeyCode::BracketedPasteEnd, _) => return self.end(line, at),
            // Whoever pastes without an end must still be able to leave.
            KeyEvent(KeyCode::Char('C'), Modifiers::CTRL) if paused >= STALLED => {
                self.coming = None;
                return Cmd::Interrupt;
            }
            KeyEvent(KeyCode::Char('J'), Modifiers::CTRL) => '\n',
            KeyEvent(KeyCode::Enter, _) => '\r',
            KeyEvent(KeyCode::Tab, _) => '\t',
            KeyEvent(KeyCode::Char(c), modifiers) if modifiers.is_empty() => c,
            // Pasted control characters mean nothing.
            _ => return Cmd::Noop,
        };
        coming.text.push(c);
        Cmd::Noop
    }
}

/// Where the cursor stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before a chip.
    Before,
    /// Behind one.
    Behind,
    /// Both.
    Between,
    /// In the middle of one.
    Inside,
}

/// What a key does beside a chip or in one; nothing where it does what it always does.
///
/// Counts of characters would not do: the editor puts the count that was typed before the key in their
/// place. A bracket stands at either end of a chip, and nowhere inside.
fn beside(place: Place, key: KeyEvent) -> Option<Cmd> {
    let start = Movement::ViCharSearch(1, CharSearch::Backward('['));
    let end = Movement::ViCharSearch(1, CharSearch::Forward(']'));
    let is_behind = matches!(place, Place::Behind | Place::Between);
    let is_before = matches!(place, Place::Before | Place::Between);
    let KeyEvent(code, modifiers) = key;
    match (code, modifiers) {
        (KeyCode::Backspace, Modifiers::NONE | Modifiers::ALT)
        | (KeyCode::Char('W'), Modifiers::CTRL)
            if is_behind =>
        {
            Some(Cmd::Kill(start))
        }
        (KeyCode::Left, Modifiers::NONE) | (KeyCode::Char('B'), Modifiers::CTRL) if is_behind => {
            Some(Cmd::Move(start))
        }
        (KeyCode::Delete, Modifiers::NONE)
        | (KeyCode::Char('D'), Modifiers::CTRL)
        | (KeyCode::Char('d'), Modifiers::ALT)
            if is_before =>
        {
            Some(Cmd::Kill(end))
        }
        _ if place == Place::Inside && !moves_or_enters(key) => Some(Cmd::Move(start)),
        _ => None,
    }
}

/// Whether the key leaves the line as it is. Others would break a chip that the cursor stands in.
fn moves_or_enters(KeyEvent(code, modifiers): KeyEvent) -> bool {
    match code {
        KeyCode::Left | KeyCode::Right | KeyCode::Up | KeyCode::Down => true,
        KeyCode::Home | KeyCode::End | KeyCode::Enter => true,
        KeyCode::Char(c) if modifiers == Modifiers::CTRL => "ABCEFJLMNPRZ".contains(c),
        KeyCode::Char(c) if modifiers == Modifiers::ALT => "bfBF".contains(c),
        _ => false,
    }
}

impl ConditionalEventHandler for Chips {
    fn handle(&self, event: &Event, _: RepeatCount, _: bool, line: &EventContext) -> Option<Cmd> {
        self.known().press(*event.get(0)?, line.line(), line.pos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(c: char) -> KeyEvent {
        KeyEvent::new(c, Modifiers::NONE)
    }

    /// What a paste puts into this line.
    fn pasted(chips: &Chips, text: &str, line: &str) -> String {
        let mut known = chips.known();
        let start = KeyEvent(KeyCode::BracketedPasteStart, Modifiers::NONE);
        assert_eq!(known.press(start, line, 0), Some(Cmd::Noop));
        for c in text.chars() {
            assert_eq!(known.press(key(c), line, 0), Some(Cmd::Noop));
        }
        let end = KeyEvent(KeyCode::BracketedPasteEnd, Modifiers::NONE);
        match known.press(end, line, 0) {
            Some(Cmd::Insert(1, text)) => text,
            Some(Cmd::Noop) => String::new(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_long_paste_is_a_chip_in_the_line_and_whole_in_what_was_said() {
        let chips = Chips::default();
        assert_eq!(chips.begin("", 2), "");
        let long = "x\r\n\ty\r".repeat(21);
        let chip = pasted(&chips, &long, "");
        assert_eq!(chip, "[paste #3 · 42 lines]");
        let other = pasted(&chips, &"z".repeat(2000), &chip);
        assert_eq!(other, "[paste #4 · 2000 characters]");
        let said = chips.said(&format!("a\u{fffc} {chip} b {other}"));
        let want = "x\n\ty\n".repeat(21);
        assert_eq!(
            said,
            format!("a {} b {}", paste::embed(&want), paste::embed(&"z".repeat(2000)))
        );
        assert_eq!(chips.begin(&said, 2), format!("a {chip} b {other}"));
    }

    #[test]
    fn a_paste_into_the_middle_of_a_chip_stands_before_it() {
        let chips = Chips::default();
        chips.begin("", 0);
        let chip = pasted(&chips, &"x\n".repeat(9), "");
        let mut known = chips.known();
        known.coming = Some(Coming::new("b"));
        let want = format!("ab{}", &chip[..5]);
        let line = format!("a{chip}");
        assert_eq!(known.end(&line, 6), Cmd::Replace(Movement::BeginningOfBuffer, Some(want)));
    }

    #[test]
    fn a_short_paste_is_what_it_is_without_control_characters() {
        let chips = Chips::default();
        chips.begin("", 0);
        assert_eq!(pasted(&chips, "a\x03\r\nb\u{fffc}", ""), "a\nb");
        assert_eq!(pasted(&chips, "", ""), "");
    }

    #[test]
    fn a_paste_whose_end_never_comes_can_be_left_and_one_that_comes_cannot() {
        let chips = Chips::default();
        chips.begin("", 0);
        let mut known = chips.known();
        let stop = KeyEvent(KeyCode::Char('C'), Modifiers::CTRL);
        known.coming = Some(Coming::new("rm"));
        assert_eq!(known.press(stop, "", 0), Some(Cmd::Noop));
        let since = Instant::now() - 2 * STALLED;
        known.coming = Some(Coming { text: "rm".to_owned(), since });
        assert_eq!(known.press(stop, "", 0), Some(Cmd::Interrupt));
        assert_eq!(known.press(key('a'), "", 0), None, "keys are keys again");
    }

    #[test]
    fn a_chip_is_taken_away_as_a_whole_and_nothing_is_typed_into_it() {
        let chips = Chips::default();
        chips.begin("", 0);
        let chip = pasted(&chips, &"x\n".repeat(9), "");
        let (line, behind) = (format!("a{chip}b"), 1 + chip.len());
        let known = chips.known();
        let press = |code, at| beside(known.place(&line, at)?, KeyEvent(code, Modifiers::NONE));
        let start = || Movement::ViCharSearch(1, CharSearch::Backward('['));
        let end = || Movement::ViCharSearch(1, CharSearch::Forward(']'));
        assert_eq!(press(KeyCode::Backspace, behind), Some(Cmd::Kill(start())));
        assert_eq!(press(KeyCode::Left, behind), Some(Cmd::Move(start())));
        assert_eq!(press(KeyCode::Delete, 1), Some(Cmd::Kill(end())));
        for at in 2..behind {
            assert_eq!(press(KeyCode::Char('x'), at), Some(Cmd::Move(start())));
            assert_eq!(press(KeyCode::Right, at), None);
        }
        for at in [0, 1, behind, behind + 1] {
            assert_eq!(press(KeyCode::Char('x'), at), None);
        }
        assert_eq!(press(KeyCode::Backspace, behind + 1), None);
        assert_eq!(press(KeyCode::Backspace, 1), None);
        drop(known);
        assert_eq!(chips.said(&chip[1..]), chip[1..], "a broken chip is text");
    }
}
