//! Where a walk over a value is, as a chain of borrowed segments: rendering costs only where something is reported.

use std::fmt::{self, Write as _};

/// A place in a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Path<'a> {
    /// The value itself.
    Root,
    /// A field or a key of a map.
    Field(&'a Path<'a>, &'a str),
    /// A key of a map, where it is told from a field.
    Key(&'a Path<'a>, &'a str),
    /// An item of a list.
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => formatter.write_str(name),
            Path::Field(parent, name) => {
                parent.fmt(formatter)?;
                formatter.write_char('.')?;
                formatter.write_str(name)
            }
            Path::Key(parent, key) => {
                parent.fmt(formatter)?;
                write!(formatter, "[{key}]")
            }
            Path::Index(parent, index) => {
                parent.fmt(formatter)?;
                write!(formatter, "[{index}]")
            }
        }
    }
}
