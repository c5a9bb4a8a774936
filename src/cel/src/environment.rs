//! Which variables expressions may use, and their types.

use std::{collections::HashMap, sync::Arc};

use crate::{
    check::{self, CheckedExpression},
    declarations::{self, DeclaredFunction, FunctionLibrary},
    error::CompileError,
    parse,
    program::CelProgram,
    schema::CelSchema,
    types::CelType,
};

/// A variable of the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Root {
    /// The object of the request.
    Object,
    /// The object as it was; null when it is created.
    OldObject,
    /// The parameters of the policy.
    Params,
    /// The attributes of the request.
    Request,
    /// The namespace of the object.
    NamespaceObject,
    /// Decides what the requester may do.
    Authorizer,
    /// The authorizer for the object of the request.
    RequestResource,
    /// The variables of the policy.
    Variables,
    /// What the exceptions of a Kyverno policy allow.
    Exceptions,
    /// Kyverno's lookups of objects.
    Resource,
    /// Kyverno's HTTP requests.
    Http,
    /// Kyverno's requests for data of images.
    Image,
    /// Kyverno's cached data.
    GlobalContext,
    /// Kyverno's reader of JSON.
    Json,
    /// Kyverno's reader of YAML.
    Yaml,
    /// The value that a validation rule of a custom resource is about.
    Itself,
    /// That value as it was.
    OldSelf,
}

impl Root {
    /// All variables that expressions of some environment may use.
    pub const ALL: [Self; 17] = [
        Self::Object,
        Self::OldObject,
        Self::Params,
        Self::Request,
        Self::NamespaceObject,
        Self::Authorizer,
        Self::RequestResource,
        Self::Variables,
        Self::Exceptions,
        Self::Resource,
        Self::Http,
        Self::Image,
        Self::GlobalContext,
        Self::Json,
        Self::Yaml,
        Self::Itself,
        Self::OldSelf,
    ];

    /// Returns its name in expressions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::OldObject => "oldObject",
            Self::Params => "params",
            Self::Request => "request",
            Self::NamespaceObject => "namespaceObject",
            Self::Authorizer => "authorizer",
            Self::RequestResource => "authorizer.requestResource",
            Self::Variables => "variables",
            Self::Exceptions => "exceptions",
            Self::Resource => "resource",
            Self::Http => "http",
            Self::Image => "image",
            Self::GlobalContext => "globalContext",
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Itself => "self",
            Self::OldSelf => "oldSelf",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|root| root.name() == name)
    }

    fn r#type(self) -> CelType {
        let of = |name: &str| CelType::Struct(name.into());
        match self {
            Self::Object | Self::OldObject | Self::Params | Self::Itself | Self::OldSelf => CelType::Dyn,
            Self::Request => of("kubernetes.AdmissionRequest"),
            Self::NamespaceObject => of("kubernetes.Namespace"),
            Self::Authorizer => of("kubernetes.authorization.Authorizer"),
            Self::RequestResource => of("kubernetes.authorization.ResourceCheck"),
            Self::Variables => of(VARIABLES),
            Self::Exceptions => of("libs.Exception"),
            Self::Resource => of("resource.Context"),
            Self::Http => of("http.Context"),
            Self::Image => of("imagedata.Context"),
            Self::GlobalContext => of("globalcontext.Context"),
            Self::Json => of("json.Json"),
            Self::Yaml => of("yaml.Yaml"),
        }
    }

    /// Whether only policies of Kyverno have it.
    fn is_of_kyverno(self) -> bool {
        self == Self::Exceptions || self.has_functions_only()
    }

    /// Whether it is only the target of functions, and has no value.
    pub fn has_functions_only(self) -> bool {
        let of_kyverno = [Self::Resource, Self::Http, Self::Image, Self::GlobalContext, Self::Json, Self::Yaml];
        of_kyverno.contains(&self)
    }
}

/// The type of `variables`.
const VARIABLES: &str = "kubernetes.variables";

/// The types of fields, as the API server declares them.
const FIELDS: &[(&str, &[(&str, &str)])] = &[
    ("kubernetes.GroupVersionKind", &[("group", "string"), ("version", "string"), ("kind", "string")]),
    ("kubernetes.GroupVersionResource", &[("group", "string"), ("version", "string"), ("resource", "string")]),
    (
        "kubernetes.UserInfo",
        &[
            ("username", "string"),
            ("uid", "string"),
            ("groups", "list(string)"),
            ("extra", "map(string, list(string))"),
        ],
    ),
    (
        "kubernetes.AdmissionRequest",
        &[
            ("kind", "kubernetes.GroupVersionKind"),
            ("resource", "kubernetes.GroupVersionResource"),
            ("subResource", "string"),
            ("requestKind", "kubernetes.GroupVersionKind"),
            ("requestResource", "kubernetes.GroupVersionResource"),
            ("requestSubResource", "string"),
            ("name", "string"),
            ("namespace", "string"),
            ("operation", "string"),
            ("userInfo", "kubernetes.UserInfo"),
            ("dryRun", "bool"),
            ("options", "dyn"),
        ],
    ),
    ("kubernetes.NamespaceSpec", &[("finalizers", "list(string)")]),
    (
        "kubernetes.NamespaceCondition",
        &[
            ("status", "string"),
            ("type", "string"),
            ("lastTransitionTime", "google.protobuf.Timestamp"),
            ("message", "string"),
            ("reason", "string"),
        ],
    ),
    ("kubernetes.NamespaceStatus", &[("conditions", "list(kubernetes.NamespaceCondition)"), ("phase", "string")]),
    (
        "kubernetes.NamespaceMetadata",
        &[
            ("name", "string"),
            ("generateName", "string"),
            ("namespace", "string"),
            ("labels", "map(string, string)"),
            ("annotations", "map(string, string)"),
            ("UID", "string"),
            ("creationTimestamp", "google.protobuf.Timestamp"),
            ("deletionGracePeriodSeconds", "int"),
            ("deletionTimestamp", "google.protobuf.Timestamp"),
            ("generation", "int"),
            ("resourceVersion", "string"),
            ("finalizers", "list(string)"),
        ],
    ),
    (
        "kubernetes.Namespace",
        &[
            ("metadata", "kubernetes.NamespaceMetadata"),
            ("spec", "kubernetes.NamespaceSpec"),
            ("status", "kubernetes.NamespaceStatus"),
        ],
    ),
];

/// The types of fields that only Kyverno has.
const KYVERNO_FIELDS: &[(&str, &[(&str, &str)])] = &[
    ("kubernetes.AdmissionRequest", &[("object", "dyn"), ("oldObject", "dyn")]),
    ("libs.Exception", &[("allowedImages", "list(string)"), ("allowedValues", "list(string)")]),
    ("user.ServiceAccount", &[("Name", "string"), ("Namespace", "string")]),
];

/// What is known of the field of a type.
pub(crate) enum DeclaredFieldType {
    Known(CelType),
    /// The type has no such field.
    Undefined,
    /// The type has no fields at all.
    NoFields,
}

/// Declares the variables of an admission policy, or of a validation rule of a custom resource, and compiles expressions.
#[derive(Debug, Clone)]
pub struct Environment {
    /// `None` for an admission policy.
    rule: Option<RuleVariables>,
    has_params: bool,
    has_authorizer: bool,
    library: FunctionLibrary,
    variables: Vec<PolicyVariable>,
}

/// The variables of a validation rule.
#[derive(Debug, Clone)]
struct RuleVariables {
    /// The schema of `self` and `oldSelf`.
    schema: Arc<CelSchema>,
    /// Those of the objects in it, by the names of their types.
    objects: Arc<HashMap<Arc<str>, Arc<CelSchema>>>,
    /// Whether `oldSelf` is an optional value.
    is_old_optional: bool,
}

/// A variable of a policy.
#[derive(Debug, Clone)]
pub(crate) struct PolicyVariable {
    pub(crate) name: Arc<str>,
    pub(crate) program: Arc<CelProgram>,
}

impl Environment {
    /// Creates the environment of an admission policy: with `params` if it has a `paramKind`.
    ///
    /// `authorizer` is declared so that expressions are checked; evaluating it is an error, because an audit has no
    /// requester.
    pub fn admission(has_params: bool) -> Self {
        Self {
            rule: None,
            has_params,
            has_authorizer: true,
            library: FunctionLibrary::Kubernetes,
            variables: Vec::new(),
        }
    }

    /// Creates the environment of a `ValidatingPolicy` of Kyverno: that of admission policies without `params` and
    /// `authorizer`, with Kyverno's own functions and variables. Calls of functions that are not implemented are errors,
    /// see [`CelReads::unsupported`](crate::CelReads::unsupported).
    pub fn kyverno() -> Self {
        Self { library: FunctionLibrary::Kyverno, has_authorizer: false, ..Self::admission(false) }
    }

    /// Creates the environment of the validation rules for a part of a custom resource: with `self` and `oldSelf`, which with
    /// `optionalOldSelf` is an optional value. Returns `None` if expressions cannot read values of the schema.
    pub fn validation(schema: &Arc<CelSchema>, is_old_optional: bool) -> Option<Self> {
        schema.cel_type()?;
        let objects = Arc::new(CelSchema::objects(schema));
        let rule = Some(RuleVariables { schema: Arc::clone(schema), objects, is_old_optional });
        Some(Self { rule, has_authorizer: false, ..Self::admission(false) })
    }

    /// Returns an environment without `authorizer`, for expressions that may not use it.
    #[must_use]
    pub fn without_authorizer(mut self) -> Self {
        self.has_authorizer = false;
        self
    }

    /// Returns an environment without `params`, for expressions that read parameters only through variables.
    #[must_use]
    pub fn without_params(mut self) -> Self {
        self.has_params = false;
        self
    }

    /// Declares `variables.NAME`; its type is that of the expression, which may use the variables before it.
    ///
    /// # Errors
    /// If the expression is refused.
    pub fn add_variable(&mut self, name: &str, source: &str) -> Result<(), CompileError> {
        let program = Arc::new(self.compile(source)?);
        match self.variables.iter_mut().find(|variable| &*variable.name == name) {
            Some(variable) => variable.program = program,
            None => self.variables.push(PolicyVariable { name: name.into(), program }),
        }
        Ok(())
    }

    /// Parses, checks and prepares an expression.
    ///
    /// # Errors
    /// What the API server refuses: syntax errors, undeclared names, wrong types, invalid constants.
    pub fn compile(&self, source: &str) -> Result<CelProgram, CompileError> {
        let compiled = parse::on_large_stack(|| {
            let parsed = parse::parse(source)?;
            let checked: CheckedExpression = check::check(self, source, &parsed)?;
            CelProgram::new(self, &parsed.expr, &checked)
        });
        compiled.map_err(CompileError::without_position)?
    }

    /// Returns the schema of `self`; `None` if it is not declared.
    pub(crate) fn self_schema(&self) -> Option<&CelSchema> {
        self.rule.as_ref().map(|rule| &*rule.schema)
    }

    pub(crate) fn variables(&self) -> &[PolicyVariable] {
        &self.variables
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&PolicyVariable> {
        self.variables.iter().find(|variable| &*variable.name == name)
    }

    /// Returns the type of a variable, or of a name of a type.
    pub(crate) fn name_type(&self, name: &str) -> Option<CelType> {
        if let Some(rule) = &self.rule {
            return rule.name_type(name);
        }
        if let Some(root) = Root::named(name) {
            let is_declared = match root {
                Root::Itself | Root::OldSelf => false,
                Root::Params => self.has_params,
                Root::Authorizer | Root::RequestResource => self.has_authorizer,
                _ => !root.is_of_kyverno() || self.library == FunctionLibrary::Kyverno,
            };
            return is_declared.then(|| root.r#type());
        }
        named_type(name).map(|of| CelType::Type(Some(Arc::new(of))))
    }

    /// Returns a function by its name; internal ones are included.
    pub(crate) fn function(&self, name: &str) -> Option<&'static DeclaredFunction> {
        declarations::function(self.library, name)
    }

    /// Returns the type of a field.
    pub(crate) fn field_type(&self, of: &str, field: &str) -> DeclaredFieldType {
        if let Some(rule) = &self.rule {
            return rule.objects.get(of).map_or(DeclaredFieldType::NoFields, |object| object.field_type(field));
        }
        if of == VARIABLES {
            return match self.variable(field) {
                Some(variable) => DeclaredFieldType::Known(variable.program.declared_type()),
                None => DeclaredFieldType::Undefined,
            };
        }
        let of_kyverno = KYVERNO_FIELDS.iter().filter(|_| self.library == FunctionLibrary::Kyverno);
        let mut types = FIELDS.iter().chain(of_kyverno).filter(|(name, _)| *name == of).peekable();
        if types.peek().is_none() {
            return DeclaredFieldType::NoFields;
        }
        match types.flat_map(|(_, fields)| *fields).find(|(name, _)| *name == field) {
            Some((_, text)) => DeclaredFieldType::Known(CelType::parse(text)),
            None => DeclaredFieldType::Undefined,
        }
    }
}

impl RuleVariables {
    fn name_type(&self, name: &str) -> Option<CelType> {
        match Root::named(name) {
            Some(Root::OldSelf) if self.is_old_optional => self.schema.cel_type().map(CelType::optional),
            Some(Root::Itself | Root::OldSelf) => self.schema.cel_type(),
            Some(_) => None,
            None => named_type(name).map(|of| CelType::Type(Some(Arc::new(of)))),
        }
    }
}

/// Returns the type that a name means in expressions such as `type(x) == int`.
pub(crate) fn named_type(name: &str) -> Option<CelType> {
    let param = |name: &str| CelType::Param(name.into());
    Some(match name {
        "list" => CelType::list(param("A")),
        "map" => CelType::map(param("A"), param("B")),
        "type" => CelType::Type(None),
        "optional_type" => CelType::optional(param("V")),
        "bool"
        | "bytes"
        | "double"
        | "int"
        | "null_type"
        | "string"
        | "uint"
        | "google.protobuf.Duration"
        | "google.protobuf.Timestamp"
        | "net.IP"
        | "net.CIDR" => CelType::parse(name),
        VARIABLES => CelType::Struct(name.into()),
        _ if FIELDS.iter().any(|(known, _)| *known == name) => CelType::Struct(name.into()),
        _ => return None,
    })
}
