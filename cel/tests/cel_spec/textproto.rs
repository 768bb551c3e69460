//! A reader of protocol buffers' text format, as far as the simple tests use it.

/// A message: its fields in order, with repeated ones repeated.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Message {
    fields: Vec<(String, Field)>,
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Field {
    /// A number, a boolean or the name of an enumeration's value.
    Word(String),
    /// Quoted text or bytes.
    Text(Vec<u8>),
    Message(Message),
}

// === impl Message ===

impl Message {
    pub(crate) fn parse(text: &str) -> Self {
        let mut reader = Reader {
            rest: text.as_bytes(),
        };
        let message = reader.message();
        assert!(
            reader.rest.is_empty(),
            "the text goes on behind the message"
        );
        message
    }

    pub(crate) fn fields(&self) -> &[(String, Field)] {
        &self.fields
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Field> {
        let (_, value) = self.fields.iter().find(|(field, _)| field == name)?;
        Some(value)
    }

    pub(crate) fn all<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Field> {
        self.fields
            .iter()
            .filter(move |(field, _)| field == name)
            .map(|(_, value)| value)
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(Field::text)
    }

    pub(crate) fn message(&self, name: &str) -> Option<&Self> {
        self.get(name).and_then(Field::message)
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some(&Field::Word("true".to_owned()))
    }
}

// === impl Field ===

impl Field {
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Text(bytes) => String::from_utf8(bytes.clone()).ok(),
            Self::Word(word) => Some(word.clone()),
            Self::Message(_) => None,
        }
    }

    pub(crate) fn message(&self) -> Option<&Message> {
        match self {
            Self::Message(message) => Some(message),
            Self::Word(_) | Self::Text(_) => None,
        }
    }
}

struct Reader<'t> {
    rest: &'t [u8],
}

// === impl Reader ===

impl Reader<'_> {
    /// Reads fields up to the end, a closing bracket, or a separator behind one.
    fn message(&mut self) -> Message {
        let mut message = Message::default();
        loop {
            while self.eat(b',') || self.eat(b';') {}
            match self.peek() {
                None | Some(b'}' | b'>') => return message,
                Some(_) => {}
            }
            let name = self.name();
            self.eat(b':');
            if self.eat(b'[') {
                while !self.eat(b']') {
                    let value = self.value();
                    message.fields.push((name.clone(), value));
                    self.eat(b',');
                }
            } else {
                let value = self.value();
                message.fields.push((name, value));
            }
        }
    }

    fn value(&mut self) -> Field {
        for (open, close) in [(b'{', b'}'), (b'<', b'>')] {
            if self.eat(open) {
                let message = self.message();
                assert!(self.eat(close), "a message is closed");
                return Field::Message(message);
            }
        }
        match self.peek() {
            Some(b'"' | b'\'') => {
                let mut text = Vec::new();
                while let Some(quote @ (b'"' | b'\'')) = self.peek() {
                    self.next();
                    self.quoted(quote, &mut text);
                }
                Field::Text(text)
            }
            _ => Field::Word(self.word()),
        }
    }

    fn name(&mut self) -> String {
        if self.eat(b'[') {
            let end = self
                .rest
                .iter()
                .position(|b| *b == b']')
                .expect("a closed name");
            let name = String::from_utf8_lossy(&self.rest[..end]).into_owned();
            self.rest = &self.rest[end + 1..];
            return name;
        }
        self.word()
    }

    fn word(&mut self) -> String {
        self.skip_space();
        let end = self
            .rest
            .iter()
            .position(|b| !(b.is_ascii_alphanumeric() || b"_.+-".contains(b)))
            .unwrap_or(self.rest.len());
        assert!(
            end > 0,
            "a word at {:?}",
            String::from_utf8_lossy(&self.rest[..20.min(self.rest.len())])
        );
        let word = String::from_utf8_lossy(&self.rest[..end]).into_owned();
        self.rest = &self.rest[end..];
        word
    }

    fn quoted(&mut self, quote: u8, text: &mut Vec<u8>) {
        loop {
            match self.next().expect("a closed text") {
                byte if byte == quote => return,
                b'\\' => self.escape(text),
                byte => text.push(byte),
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) {
        match self.next().expect("an escape") {
            b'n' => text.push(b'\n'),
            b't' => text.push(b'\t'),
            b'r' => text.push(b'\r'),
            b'a' => text.push(7),
            b'b' => text.push(8),
            b'f' => text.push(12),
            b'v' => text.push(11),
            b'x' | b'X' => {
                let code = self.digits(16, 2);
                text.push(u8::try_from(code).expect("two digits"));
            }
            b'u' => self.unicode(4, text),
            b'U' => self.unicode(8, text),
            digit @ b'0'..=b'7' => {
                let mut code = u32::from(digit - b'0');
                for _ in 0..2 {
                    if let Some(digit @ b'0'..=b'7') = self.rest.first() {
                        code = code * 8 + u32::from(digit - b'0');
                        self.next();
                    }
                }
                text.push(u8::try_from(code).expect("an octal byte"));
            }
            other => text.push(other),
        }
    }

    fn unicode(&mut self, width: usize, text: &mut Vec<u8>) {
        let code = self.digits(16, width);
        let c = char::from_u32(code).expect("a character");
        text.extend(c.to_string().into_bytes());
    }

    fn digits(&mut self, radix: u32, width: usize) -> u32 {
        let mut code = 0;
        for _ in 0..width {
            let Some(digit) = self
                .rest
                .first()
                .and_then(|b| char::from(*b).to_digit(radix))
            else {
                break;
            };
            code = code * radix + digit;
            self.next();
        }
        code
    }

    fn skip_space(&mut self) {
        while let Some(byte) = self.rest.first() {
            if byte.is_ascii_whitespace() {
                self.rest = &self.rest[1..];
            } else if *byte == b'#' {
                let end = self.rest.iter().position(|b| *b == b'\n');
                self.rest = &self.rest[end.unwrap_or(self.rest.len())..];
            } else {
                return;
            }
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.rest.first().copied()
    }

    /// Takes the next byte as it is.
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.next();
        }
        found
    }
}

#[test]
fn the_text_format_is_read() {
    let message = Message::parse(
        "# comment\nname: \"a\" 'b\\n\\101' n: -1.5e3, list: [1, 2]\n\
         inner { [type.x/y.Z] { ok: true } } tail: < a: 1 >",
    );
    assert_eq!(message.text("name").as_deref(), Some("ab\nA"));
    assert_eq!(message.text("n").as_deref(), Some("-1.5e3"));
    assert_eq!(message.all("list").count(), 2);
    let inner = message.message("inner").expect("a message");
    let (name, field) = &inner.fields()[0];
    assert_eq!(name, "type.x/y.Z");
    assert!(field.message().expect("a message").is_true("ok"));
    assert!(message.message("tail").is_some());
}
