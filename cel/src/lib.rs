//! Expressions: the Common Expression Language as Kubernetes and kro have it.
//!
//! ```text
//!   text ──▶ compile ──▶ Program ──▶ evaluate(Bindings, Budget) ──▶ Value ──▶ JSON
//!             │  ▲                       ▲
//!      parser crate  Declarations     JSON by reference
//! ```
//!
//! An [`Environment`] holds the functions; [`Declarations`] say which variables an expression may
//! name and what they are; a [`Program`] is compiled once and evaluated many times, on [`Bindings`]
//! that borrow JSON. The parser is that of the `cel` crate; the checker, the evaluator and the
//! libraries are here.
//!
//! Invariants:
//! - Compiling and evaluating never panic and never overflow the stack, whatever the text, and
//!   evaluating ends within its [`Budget`], which bounds memory too.
//! - A value depends on the bindings alone: no clock, no randomness, no order of a hash map.
//! - An evaluation error that means "not there yet" is [`ErrorClass::DataPending`], by kro's rule.
//!
//! [`template`] is kro's `${...}` syntax.

mod admission;
mod allowance;
mod bindings;
mod budget;
mod compile;
mod cost;
mod declarations;
#[cfg(test)]
mod differential;
mod environment;
mod error;
mod evaluate;
mod library;
mod node;
mod objects;
mod price;
mod program;
mod runtime_calls;
pub mod template;
mod time;
mod types;
mod value;

pub use allowance::{Allowance, Unevaluated};
pub use bindings::Bindings;
pub use budget::Budget;
pub use compile::{Inspection, Reader};
pub use cost::Sizes;
pub use declarations::Declarations;
pub use environment::Environment;
pub use error::{CompileError, CompileErrorKind, ErrorClass, EvaluateError};
pub use library::authorization::{
    AUTHORIZER, Answer, Authorize, Question, RESOURCE_CHECK, ResourceSubject, Subject,
};
pub use program::{FieldPathExpr, Program, Uses};
pub use runtime_calls::RuntimeCall;
pub use types::{
    DeclType, ListKind, ListType, MapType, ObjectType, RESERVED_WORDS, escape, unescape,
};
pub use value::Value;
