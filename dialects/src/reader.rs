//! An answer's text becomes pieces as it comes. Every character is looked at once, so it does not matter in which portions they come.

use crate::dialect::{Dialect, Reasoning};
use crate::form::{Form, Step};
use crate::marks::{Match, among, tail};
use crate::offer::{Offers, Tool};
use crate::out::{Out, Piece};

#[derive(Debug)]
enum Place {
    Reasoning,
    Text,
    Call(Box<Form>),
}

/// What stood last before the place at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    Nothing,
    Reasoning,
    Call,
}

/// Reads one answer. White space around reasoning, and around calls where nothing else stands, is no one's and goes.
#[derive(Debug)]
pub struct Reader {
    dialect: Dialect,
    offers: Offers,
    pair: Option<(&'static str, &'static str)>,
    opens_anywhere: bool,
    place: Place,
    /// White space that is text only if text follows; in reasoning: only if more reasoning follows.
    blank: String,
    /// What may still become a mark.
    held: String,
    /// Nothing but white space since the answer began, reasoning ended or a call ended.
    fresh: bool,
    /// What stands before.
    behind: Behind,
    /// Of the call at hand: all that came since the last call ended, its opening mark and white space before that included.
    raw: String,
    /// A call ended since the opening mark.
    ended: bool,
    out: Out,
}

impl Reader {
    /// `tools`: whose calls are recognised; without any, text stays text. `begins_in_reasoning`: the prompt ended within the reasoning mark.
    pub fn new(dialect: Dialect, reasoning: Reasoning, tools: &[Tool], begins_in_reasoning: bool) -> Reader {
        let pair = reasoning.pair();
        let inside = begins_in_reasoning && pair.is_some();
        Reader {
            dialect: if tools.is_empty() { Dialect::Plain } else { dialect },
            offers: Offers::new(tools),
            pair,
            opens_anywhere: reasoning.opens_anywhere(),
            place: if inside { Place::Reasoning } else { Place::Text },
            blank: String::new(),
            held: String::new(),
            fresh: true,
            behind: if inside { Behind::Reasoning } else { Behind::Nothing },
            raw: String::new(),
            ended: false,
            out: Out::default(),
        }
    }

    /// What the next part of the text says.
    pub fn push(&mut self, text: &str) -> Vec<Piece> {
        text.chars().for_each(|c| self.step(c));
        self.out.take()
    }

    /// What remains when the answer has ended.
    pub fn finish(&mut self) -> Vec<Piece> {
        let held = std::mem::take(&mut self.held);
        let blank = std::mem::take(&mut self.blank);
        let raw = std::mem::take(&mut self.raw);
        match std::mem::replace(&mut self.place, Place::Text) {
            Place::Reasoning if !held.is_empty() => self.out.reasoning(&(blank + &held)),
            Place::Reasoning => {}
            Place::Text if held.is_empty() && self.behind != Behind::Nothing => {}
            Place::Text => self.out.text(&(blank + &held)),
            Place::Call(_) if self.out.telling() => self.out.broken(raw),
            // Whatever came of the closing mark.
            Place::Call(form) if self.ended && form.rests() => {}
            Place::Call(_) => self.out.text(&raw),
        }
        self.out.take()
    }

    fn step(&mut self, c: char) {
        match self.place {
            Place::Reasoning => self.reasoning(c),
            Place::Text => self.text(c),
            Place::Call(_) => self.call(c),
        }
    }

    fn reasoning(&mut self, c: char) {
        let Some((_, close)) = self.pair else { return };
        self.held.push(c);
        match among(&self.held, &[close]) {
            Match::Begins => {}
            Match::Is(_) => {
                self.held.clear();
                self.blank.clear();
                self.begin_text(Behind::Reasoning);
            }
            Match::None => {
                let keep = tail(&self.held, &[close]);
                let free: String = self.held.drain(..self.held.len() - keep).collect();
                free.chars().for_each(|c| self.reason(c));
            }
        }
    }

    /// White space waits for more: none stands at either end of reasoning.
    fn reason(&mut self, c: char) {
        if c.is_whitespace() {
            if !self.fresh {
                self.blank.push(c);
            }
            return;
        }
        self.fresh = false;
        self.blank.push(c);
        self.out.reasoning(&std::mem::take(&mut self.blank));
    }

    /// Whether `text` begins or is a mark that may stand here, and which.
    fn mark(&self, text: &str) -> (Match, Match) {
        let opening = match self.pair {
            Some((open, _)) if self.fresh || self.opens_anywhere => among(text, &[open]),
            _ => Match::None,
        };
        let calls = match self.dialect {
            // Nothing announces Llama's calls: they begin the answer.
            Dialect::Llama3 if !self.fresh => &[],
            dialect => dialect.opens(),
        };
        (opening, among(text, calls))
    }

    fn text(&mut self, c: char) {
        if self.held.is_empty() {
            if c.is_whitespace() && self.fresh && self.expects_marks() {
                // Behind reasoning it goes in any case; elsewhere it is text if text follows.
                if self.behind != Behind::Reasoning {
                    self.blank.push(c);
                }
                return;
            }
            let mut bytes = [0; 4];
            let alone = c.encode_utf8(&mut bytes);
            if self.mark(alone) == (Match::None, Match::None) {
                return self.plain(alone);
            }
        }
        self.held.push(c);
        match self.mark(&self.held) {
            (Match::Is(_), _) => {
                self.held.clear();
                self.blank.clear();
                self.place = Place::Reasoning;
                self.fresh = true;
            }
            (_, Match::Is(open)) => {
                self.raw = std::mem::take(&mut self.blank) + &std::mem::take(&mut self.held);
                self.ended = false;
                self.place = Place::Call(Box::new(Form::new(self.dialect, open)));
            }
            (Match::None, Match::None) => self.let_go(),
            _ => {}
        }
    }

    /// Text, and white space before it that waited for it.
    fn plain(&mut self, text: &str) {
        self.fresh = false;
        if !self.blank.is_empty() {
            self.out.text(&std::mem::take(&mut self.blank));
        }
        self.out.text(text);
    }

    /// The first character held is no mark's: it is text. The others are read anew.
    fn let_go(&mut self) {
        let held = std::mem::take(&mut self.held);
        let first = held.chars().next().map_or(0, char::len_utf8);
        self.plain(&held[..first]);
        held[first..].chars().for_each(|c| self.step(c));
    }

    fn expects_marks(&self) -> bool {
        self.pair.is_some() || !self.offers.is_empty()
    }

    fn call(&mut self, c: char) {
        let Place::Call(form) = &mut self.place else { return };
        self.raw.push(c);
        let step = form.step(c, &self.offers, &mut self.out);
        if self.out.ended() {
            self.raw.clear();
            self.ended = true;
        }
        match step {
            Step::More => {}
            Step::Ends => {
                self.raw.clear();
                self.begin_text(Behind::Call);
            }
            Step::Over if self.ended => {
                self.begin_text(Behind::Call);
                let raw = std::mem::take(&mut self.raw);
                raw.chars().for_each(|c| self.step(c));
            }
            Step::Over | Step::Bad => self.malformed(),
        }
    }

    fn begin_text(&mut self, behind: Behind) {
        self.place = Place::Text;
        (self.fresh, self.behind) = (true, behind);
    }

    /// What stood for a call goes back to being text, but for an end of it that may begin another mark.
    fn malformed(&mut self) {
        let mut raw = std::mem::take(&mut self.raw);
        let keep = tail(&raw, self.dialect.opens()).max(self.pair.map_or(0, |(open, _)| if self.opens_anywhere { tail(&raw, &[open]) } else { 0 }));
        let rest = raw.split_off(raw.len() - keep);
        if self.out.telling() {
            self.out.broken(raw);
        } else {
            self.out.text(&raw);
        }
        self.place = Place::Text;
        self.fresh = false;
        rest.chars().for_each(|c| self.step(c));
    }
}
