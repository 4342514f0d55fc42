//! What a person types while a turn runs, in rows below everything else.
//!
//! The rows are taken away before anything else is written, and the cursor goes back to where the text
//! above them ended, so that a streamed line goes on as if nothing had been there. Where that is nobody
//! knows after the terminal became wider or narrower: some lay their lines out anew, and some do not. The
//! text goes on in a new row then, because a guess could erase what was said.

use agent::sanitize::{Visible, one_line};

use super::super::style::{Ink, Paint, Style, columns_of, fit};
use super::super::{Extent, PROMPT_COLUMNS, Typing};

/// What stands before the line, in [`PROMPT_COLUMNS`].
const PROMPT: Visible<'static> = Visible::own("» ");

/// Most lines that wait and are shown.
const MOST_QUEUED: usize = 3;

/// The smallest screen that has room for it.
const SMALLEST: Extent = Extent { columns: 12, rows: 4 };

/// Columns between the places of tabs.
const TAB: usize = 8;

/// The rows, whether or not they stand there.
pub(super) struct Below {
    /// Columns of the terminal.
    columns: usize,
    /// The column in which the text above ends.
    column: usize,
    /// The terminal may have moved that end.
    is_moved: bool,
    /// What takes the rows away.
    lift: Option<Ink>,
    /// How many rows stand above the line.
    above: usize,
}

impl Below {
    pub(super) fn new(columns: usize) -> Self {
        Self { columns, column: 0, is_moved: false, lift: None, above: 0 }
    }

    /// Takes note of what is written above.
    pub(super) fn follow(&mut self, ink: &Ink) {
        let mut chars = ink.as_str().chars();
        while let Some(c) = chars.next() {
            match c {
                '\n' | '\r' => self.restart(),
                '\t' => {
                    self.column =
                        (self.column / TAB * TAB + TAB).min(self.columns.saturating_sub(1));
                }
                // The program's own sequences, which end with a letter.
                '\x1b' => while chars.next().is_some_and(|c| !c.is_ascii_alphabetic()) {},
                c => {
                    let wide = columns_of(c);
                    let is_full = self.column + wide > self.columns;
                    self.column = if is_full { wide } else { self.column + wide };
                }
            }
        }
    }

    /// What follows above begins at the start of a line.
    pub(super) fn restart(&mut self) {
        (self.column, self.is_moved) = (0, false);
    }

    /// The terminal has so many columns now.
    pub(super) fn resized(&mut self, columns: usize) {
        if columns == self.columns {
            return;
        }
        self.columns = columns;
        if self.lift.is_some() {
            self.lift = Some(take_away(self.above));
            self.restart();
        }
        self.is_moved = self.column > 0;
    }

    /// What takes the rows away, if they stand there.
    pub(super) fn lift(&mut self) -> Option<Ink> {
        self.lift.take()
    }

    /// What puts the rows up. They must not stand there.
    pub(super) fn put_up(&mut self, typing: &Typing, screen: Extent, style: Style) -> Ink {
        self.resized(screen.columns);
        let mut ink = Ink::default();
        let Some((line, cursor)) = &typing.line else { return ink };
        if screen.columns < SMALLEST.columns || screen.rows < SMALLEST.rows {
            return ink;
        }
        let rows = rows(typing, screen);
        self.above = rows.len();
        let mut lift = take_away(self.above);
        if self.column > 0 {
            ink.own("\r\n");
        }
        if self.column >= self.columns || self.is_moved {
            // Or the row above is full: the text goes on where the rows stand now.
            self.restart();
        } else if self.column > 0 {
            lift.up(1).column(self.column);
        }
        for row in &rows {
            ink.paint(style, Paint::Dim, row).own("\r\n");
        }
        ink.paint(style, Paint::Bold, &PROMPT).text(line);
        ink.column(PROMPT_COLUMNS + cursor);
        self.lift = Some(lift);
        ink
    }
}

/// What takes the line away and so many rows above it.
fn take_away(above: usize) -> Ink {
    let mut ink = Ink::from("\r");
    ink.up(above).own("\x1b[J");
    ink
}

/// What stands above the line, each in one row.
fn rows(typing: &Typing, screen: Extent) -> Vec<Visible<'static>> {
    let most = MOST_QUEUED.min(screen.rows - SMALLEST.rows);
    let hidden = typing.queued.len().saturating_sub(most);
    let mut rows = Vec::new();
    let shown = &typing.queued[hidden..];
    for (at, line) in shown.iter().enumerate() {
        let more =
            if at == 0 && hidden > 0 { format!(" (after {hidden} more)") } else { String::new() };
        let is_last = at + 1 == shown.len();
        let key = if is_last { " · ↑ takes it back" } else { "" };
        // The key is told whatever the line's length.
        let tail = one_line(&format!("{more}{key}")).into_owned();
        let room = screen.columns.saturating_sub(1);
        let room_for_line = room.saturating_sub(tail.chars().map(columns_of).sum());
        let line = one_line(&format!("queued: {line}")).into_owned();
        let row = format!("{}{tail}", fit(&line, room_for_line));
        rows.push(fit(&one_line(&row), room).into_owned());
    }
    if let Some(hint) = typing.hint {
        rows.push(fit(&Visible::own(hint), screen.columns - 1).into_owned());
    }
    rows
}

#[cfg(test)]
mod tests {
    use agent::steering::{Notice, Source};
    use agent::{AgentEvent, TurnOutcome};
    use serde_json::json;

    use super::super::tests::{call, coloured, end, result, text};
    use super::super::{Audience, Look, Render as _, Text};
    use super::*;

    /// A terminal that knows the sequences in use here.
    struct Terminal {
        rows: Vec<Vec<char>>,
        row: usize,
        column: usize,
        columns: usize,
        /// The rows that go on with the one before.
        wrapped: Vec<usize>,
    }

    impl Terminal {
        fn new(columns: usize) -> Self {
            Self { rows: vec![Vec::new()], row: 0, column: 0, columns, wrapped: Vec::new() }
        }

        fn showing(bytes: &[u8], columns: usize) -> Self {
            let mut terminal = Self::new(columns);
            terminal.take(bytes);
            terminal
        }

        /// Lays its lines out anew, as most terminals do.
        fn reflow(&mut self, columns: usize) {
            let (mut lines, mut cursor) = (Vec::<Vec<char>>::new(), (0, 0));
            for (number, row) in self.rows.iter().enumerate() {
                if !self.wrapped.contains(&number) {
                    lines.push(Vec::new());
                }
                let line = lines.last_mut().expect("the first row begins a line");
                if number == self.row {
                    cursor.1 = line.len() + self.column;
                }
                line.extend(row);
                if number == self.row {
                    cursor.0 = lines.len() - 1;
                }
            }
            *self = Self::new(columns);
            let mut at = (0, 0);
            for (number, line) in lines.iter().enumerate() {
                (self.row, self.column) = (self.rows.len() - 1 + usize::from(number > 0), 0);
                self.rows.resize(self.row + 1, Vec::new());
                if number == cursor.0 {
                    at = (self.row + cursor.1 / columns, cursor.1 % columns);
                }
                line.iter().for_each(|c| self.print(*c));
            }
            (self.row, self.column) = at;
        }

        fn take(&mut self, bytes: &[u8]) {
            let terminal = self;
            let mut chars = std::str::from_utf8(bytes).expect("ink is text").chars();
            while let Some(c) = chars.next() {
                match c {
                    // A terminal in its usual mode goes to the start of the line as well.
                    '\n' => (terminal.row, terminal.column) = (terminal.row + 1, 0),
                    '\r' => terminal.column = 0,
                    '\t' => {
                        let next = terminal.column / TAB * TAB + TAB;
                        terminal.column = next.min(terminal.columns - 1);
                    }
                    '\x1b' => {
                        let mut sequence = String::new();
                        while !sequence.ends_with(|c: char| c.is_ascii_alphabetic()) {
                            sequence.push(chars.next().expect("a sequence has an end"));
                        }
                        terminal.obey(sequence.trim_start_matches('['));
                    }
                    c => terminal.print(c),
                }
                while terminal.rows.len() <= terminal.row {
                    terminal.rows.push(Vec::new());
                }
            }
        }

        fn print(&mut self, c: char) {
            if self.column + columns_of(c) > self.columns {
                (self.row, self.column) = (self.row + 1, 0);
                self.rows.resize(self.rows.len().max(self.row + 1), Vec::new());
                self.wrapped.push(self.row);
            }
            let row = &mut self.rows[self.row];
            row.resize(row.len().max(self.column + 1), ' ');
            row[self.column] = c;
            self.column += columns_of(c);
        }

        fn obey(&mut self, sequence: &str) {
            let (number, what) = sequence.split_at(sequence.len() - 1);
            let number: Option<usize> = number.parse().ok();
            match what {
                "A" => self.row -= number.expect("a number of rows"),
                "G" => self.column = number.expect("a column") - 1,
                "J" => {
                    self.rows.truncate(self.row + 1);
                    self.wrapped.retain(|row| *row <= self.row);
                    self.rows[self.row].truncate(self.column);
                }
                "K" if number == Some(2) => self.rows[self.row].clear(),
                "m" => {}
                other => panic!("{other} is not known"),
            }
        }

        fn text(&self) -> String {
            let line = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_owned();
            self.rows.iter().map(line).collect::<Vec<_>>().join("\n").trim_end().to_owned()
        }
    }

    fn typing(queued: &[&str], line: &str) -> Typing {
        Typing {
            queued: queued.iter().map(|line| one_line(line).into_owned()).collect(),
            hint: None,
            line: Some((one_line(line).into_owned(), line.chars().count())),
        }
    }

    /// What a terminal shows after these events, with something typed between any two of them or not.
    fn shown(events: &[AgentEvent], columns: usize, typed: Option<&Typing>, ends: bool) -> String {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let look = Look { width: columns.min(80), ..coloured() };
        let mut renderer = Text::new(&mut out, &mut err, Audience::Conversation, look);
        let screen = Extent { columns, rows: 24 };
        renderer.typing(&Typing::default(), screen).unwrap();
        for event in events {
            renderer.event(event).unwrap();
            if let Some(typed) = typed {
                renderer.typing(typed, screen).unwrap();
                renderer.tick().unwrap();
                renderer.typing(typed, screen).unwrap();
            }
        }
        if ends {
            renderer.typing(&Typing::default(), screen).unwrap();
        }
        drop(renderer);
        Terminal::showing(&out, columns).text()
    }

    #[test]
    fn typing_leaves_what_stands_above_as_it_would_be_without() {
        let notice = Notice { id: "1".into(), source: Source::User, text: "use tabs".into() };
        let words =
            "words 漢字 in a line that is longer than any screen here \t and a tab ".repeat(4);
        let mut events = vec![AgentEvent::StepStarted { step: 1 }];
        events.extend(words.split_inclusive(' ').map(text));
        events.push(call("1", "bash", json!({"command": "ls"})));
        events.push(result("1", false, "one\ntwo"));
        events.push(AgentEvent::NoticesDelivered { notices: vec![notice] });
        events.extend(["done", ".\nAnd", " more", "\n"].map(text));
        events.push(end(TurnOutcome::Done, "done"));
        for columns in [12, 13, 20, 40, 80, 120] {
            let without = shown(&events, columns, None, true);
            for typed in
                [typing(&[], "half a"), typing(&["one", "two"], ""), typing(&["a"; 9], "x")]
            {
                assert_eq!(shown(&events, columns, Some(&typed), true), without, "{columns}");
            }
        }
    }

    /// What a terminal shows of an answer during which it changed from so many columns to so many, with
    /// something typed before or after that, as one word.
    fn resized(from: usize, to: usize, reflows: bool, typed: [&Typing; 2]) -> String {
        let (mut below, mut terminal) = (Below::new(from), Terminal::new(from));
        let style = Style { is_on: false };
        let say = |word: &str, terminal: &mut Terminal, below: &mut Below, typed, columns| {
            below.resized(columns);
            let mut ink = below.lift().unwrap_or_default();
            let mut said = Ink::default();
            said.text(&one_line(word));
            below.follow(&said);
            ink.text(&one_line(word));
            let typed = below.put_up(typed, Extent { columns, rows: 24 }, style);
            [ink, typed].iter().for_each(|ink| terminal.take(ink.as_bytes()));
        };
        for at in 0..60 {
            let (typed, columns) = if at < 30 { (typed[0], from) } else { (typed[1], to) };
            if at == 30 {
                match reflows {
                    true => terminal.reflow(to),
                    false => terminal.columns = to,
                }
            }
            say(&format!("w{at} "), &mut terminal, &mut below, typed, columns);
        }
        terminal.text().split_whitespace().collect()
    }

    #[test]
    fn a_terminal_that_becomes_wider_or_narrower_loses_no_word() {
        let word =
            |range: std::ops::Range<usize>| range.map(|at| format!("w{at}")).collect::<String>();
        let (nothing, line) = (Typing::default(), typing(&["one"], "a line that is long"));
        for (from, to) in [(40, 70), (40, 41), (70, 40), (40, 23)] {
            for typed in [[&nothing, &line], [&line, &nothing], [&line, &line]] {
                let seen = resized(from, to, true, typed);
                assert!(
                    seen.contains(&word(0..30)) && seen.contains(&word(30..60)),
                    "{from} {to}: {seen}"
                );
                // What is cut off at the right is the terminal's.
                if to > from {
                    let seen = resized(from, to, false, typed);
                    assert!(seen.contains(&word(0..60)), "{from} {to}: {seen}");
                }
            }
        }
    }

    #[test]
    fn what_waits_stands_above_the_line_and_says_how_it_is_taken_back() {
        let typed = typing(&["zero", "one", "two", "three"], "half a li");
        let seen = shown(&[text("Let me")], 40, Some(&typed), false);
        let want = "Let me\nqueued: one (after 1 more)\nqueued: two\nqueued: three · ↑ takes it back\n» half a li";
        assert_eq!(seen, want);
        let long = typing(&[&"long ".repeat(20)], "");
        let seen = shown(&[text("x\n")], 40, Some(&long), false);
        assert!(seen.starts_with("x\nqueued: long "), "{seen}");
        assert!(seen.contains("… · ↑ takes it back\n»"), "{seen}");
    }

    #[test]
    fn a_screen_without_room_shows_nothing_of_it() {
        let typed = typing(&[], "half");
        for screen in [Extent { columns: 11, rows: 24 }, Extent { columns: 80, rows: 3 }] {
            let mut below = Below::new(80);
            assert!(below.put_up(&typed, screen, Style { is_on: true }).is_empty());
            assert_eq!(below.lift(), None);
        }
    }
}
