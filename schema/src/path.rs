//! Where a walk over a value is, as a chain of borrowed segments: rendering costs only where something is reported.

use std::fmt::{self, Write as _};

/// A place in a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Path<'a> {
    /// The value itself.
    Root,
    /// A field or a key of a map.
    Field(&'a Self, &'a str),
    /// A key of a map, where it is told from a field.
    Key(&'a Self, &'a str),
    /// An item of a list.
    Index(&'a Self, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => {
                parent.fmt(f)?;
                f.write_char('.')?;
                f.write_str(name)
            }
            Path::Key(parent, key) => {
                parent.fmt(f)?;
                write!(f, "[{key}]")
            }
            Path::Index(parent, index) => {
                parent.fmt(f)?;
                write!(f, "[{index}]")
            }
        }
    }
}
