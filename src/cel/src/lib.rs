//! CEL as the Kubernetes API server evaluates it in admission policies and in validation rules of custom resources.
//!
//! Expressions are parsed, checked and evaluated as by the API server 1.36: with its function libraries, its types, its
//! costs and its limits. Objects are borrowed: an evaluation converts only the values that it reads.
//!
//! ```
//! use kaudit_cel::{Bindings, Budget, Environment, Root};
//!
//! let mut environment = Environment::admission(false);
//! environment.add_variable("containers", "object.spec.containers")?;
//! let program = environment.compile("variables.containers.all(c, c.image.startsWith('registry.example.com/'))")?;
//!
//! let object = serde_json::json!({"spec": {"containers": [{"image": "nginx"}]}});
//! let bindings = Bindings::new(&environment).with(Root::Object, &object);
//! assert_eq!(program.evaluate(&bindings, &mut Budget::default())?.to_string(), "false");
//!
//! let error = environment.compile("object.spec.replicas > 'a' + 1").err().unwrap();
//! assert_eq!((error.line, error.column), (1, 28));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ast;
mod bindings;
mod budget;
mod check;
mod cost;
mod declarations;
mod environment;
mod error;
mod library;
mod machine;
mod parse;
mod plan;
mod program;
pub mod reads;
pub mod schema;
mod types;
pub mod value;

pub use self::{
    bindings::{Bindings, ObjectLookup},
    budget::Budget,
    cost::{PER_EXPRESSION, PER_POLICY},
    environment::{Environment, Root},
    error::{CompileError, EvalError},
    library::{cidr::Cidr, image::ImageReference, named::NamedFormat, quantity::Quantity, semver::Semver, url::Url},
    program::CelProgram,
    reads::CelReads,
    schema::CelSchema,
    types::CelType,
    value::CelValue,
};
