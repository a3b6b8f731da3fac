//! Reads the Python literals that the type info consists of: strings, numbers, names, lists and tuples inside one call.
//!
//! Nothing is executed. What is not a literal of this small language is an error that says where.

use std::fmt;

/// A literal of the type info.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Str(String),
    Int(i64),
    None,
    /// One or more names joined by `|`, as flags are written.
    Flags(Vec<String>),
    /// A list or a tuple; the type info doesn't tell them apart in meaning.
    List(Vec<Literal>),
}

/// A call such as `CreateEnumType("vim.X", …)`.
#[derive(Debug)]
pub(super) struct Call {
    pub function: String,
    pub arguments: Vec<Literal>,
}

/// Where and why a line could not be read.
#[derive(Debug, PartialEq)]
pub(super) struct ParseError {
    column: usize,
    expected: &'static str,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: expected {}", self.column + 1, self.expected)
    }
}

/// Reads one line that holds one call.
pub(super) fn parse_call(line: &str) -> Result<Call, ParseError> {
    let mut cursor = Cursor { text: line, at: 0 };
    let function = cursor.name().ok_or_else(|| cursor.error("a function's name"))?;
    cursor.expect('(', "'('")?;
    let arguments = cursor.items(')', 0)?;
    cursor.skip_space();
    if cursor.at < line.len() {
        return Err(cursor.error("the end of the line"));
    }
    Ok(Call { function, arguments })
}

/// Deeper than the type info ever nests; keeps a damaged file from exhausting the stack.
const MAX_DEPTH: usize = 16;

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn error(&self, expected: &'static str) -> ParseError {
        ParseError { column: self.at, expected }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.skip_space();
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn expect(&mut self, wanted: char, said_as: &'static str) -> Result<(), ParseError> {
        if self.eat(wanted) { Ok(()) } else { Err(self.error(said_as)) }
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let taken: String = self.rest().chars().take_while(|c| belongs(*c)).collect();
        self.at += taken.len();
        taken
    }

    fn name(&mut self) -> Option<String> {
        self.skip_space();
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        (!name.is_empty()).then_some(name)
    }

    /// The items up to `close`, which may follow a trailing comma.
    fn items(&mut self, close: char, depth: usize) -> Result<Vec<Literal>, ParseError> {
        if depth > MAX_DEPTH {
            return Err(self.error("less nesting"));
        }
        let mut items = Vec::new();
        loop {
            if self.eat(close) {
                return Ok(items);
            }
            items.push(self.literal(depth)?);
            if !self.eat(',') {
                self.expect(close, "',' or the closing bracket")?;
                return Ok(items);
            }
        }
    }

    fn literal(&mut self, depth: usize) -> Result<Literal, ParseError> {
        self.skip_space();
        match self.peek() {
            Some('"') => self.string(),
            Some('[') => {
                self.at += 1;
                Ok(Literal::List(self.items(']', depth + 1)?))
            }
            Some('(') => {
                self.at += 1;
                Ok(Literal::List(self.items(')', depth + 1)?))
            }
            Some(c) if c.is_ascii_digit() => {
                let digits = self.take_while(|c| c.is_ascii_digit());
                digits.parse().map(Literal::Int).map_err(|_| self.error("a smaller number"))
            }
            Some(c) if c.is_ascii_alphabetic() => self.flags(),
            _ => Err(self.error("a literal")),
        }
    }

    fn string(&mut self) -> Result<Literal, ParseError> {
        self.at += 1;
        let text = self.take_while(|c| c != '"' && c != '\\');
        self.expect('"', "a plain string that ends on its line")?;
        Ok(Literal::Str(text))
    }

    fn flags(&mut self) -> Result<Literal, ParseError> {
        let mut names = Vec::new();
        loop {
            names.push(self.name().ok_or_else(|| self.error("a flag's name"))?);
            if !self.eat('|') {
                break;
            }
        }
        Ok(if names == ["None"] { Literal::None } else { Literal::Flags(names) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_with_nested_lists_flags_and_trailing_commas_is_read() {
        let call = parse_call(r#"F("a", [("b", 0, F_LINK | F_OPTIONAL),], (), None)"#).unwrap();
        assert_eq!(call.function, "F");
        let flags = Literal::Flags(vec!["F_LINK".into(), "F_OPTIONAL".into()]);
        let tuple = Literal::List(vec![Literal::Str("b".into()), Literal::Int(0), flags]);
        assert_eq!(
            call.arguments,
            [Literal::Str("a".into()), Literal::List(vec![tuple]), Literal::List(vec![]), Literal::None]
        );
    }

    #[test]
    fn anything_but_a_literal_is_refused_with_its_column() {
        for (line, said) in [
            (r#"F("a" + "b")"#, "column 7: expected ',' or the closing bracket"),
            (r#"F("a"#, "column 5: expected a plain string that ends on its line"),
            (r"F(-1)", "column 3: expected a literal"),
            (r"F(1) ; evil()", "column 6: expected the end of the line"),
            (r"(1)", "column 1: expected a function's name"),
            (r"F(99999999999999999999)", "column 23: expected a smaller number"),
        ] {
            assert_eq!(parse_call(line).unwrap_err().to_string(), said, "{line}");
        }
        assert!(parse_call(&format!("F({}", "[".repeat(100_000))).is_err());
    }
}
