//! What the compiler tells: errors with their places, types, and what an expression uses.

use wheelhouse_cel::{
    CompileErrorKind, DeclType, Declarations, Environment, ObjectType, Program, template,
};

fn deployment() -> DeclType {
    let spec = DeclType::object(
        "__type_deployment.spec",
        [
            ("replicas".to_owned(), DeclType::Int),
            ("paused".to_owned(), DeclType::Bool),
            ("dash-ed".to_owned(), DeclType::String),
            ("namespace".to_owned(), DeclType::String),
            (
                "labels".to_owned(),
                DeclType::map(DeclType::String, DeclType::String),
            ),
            ("since".to_owned(), DeclType::Timestamp),
        ],
    );
    let open = ObjectType {
        name: "__type_deployment.free".to_owned(),
        fields: [("known".to_owned(), DeclType::Int)].into(),
        open: true,
    };
    DeclType::object(
        "__type_deployment",
        [
            ("spec".to_owned(), spec),
            ("free".to_owned(), DeclType::Object(open.into())),
            (
                "ports".to_owned(),
                DeclType::list(DeclType::object("port", [("n".to_owned(), DeclType::Int)])),
            ),
        ],
    )
}

fn declarations() -> Declarations {
    Declarations::new()
        .with("deployment", deployment())
        .with("any", DeclType::Dyn)
        .with("maybe", DeclType::optional(DeclType::String))
}

fn compiled(source: &str) -> Program {
    Environment::kro()
        .compile(source, &declarations())
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn errors_show_the_place_as_cel_go_does() {
    for (source, want) in [
        (
            "foo.bar",
            "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo.bar\n | ^",
        ),
        (
            "1 + frob(2)",
            "ERROR: <input>:1:9: undeclared reference to 'frob' (in container '')\n | 1 + frob(2)\n | ........^",
        ),
        (
            "\"arn-\" + (deployment.spec.paused)",
            "ERROR: <input>:1:8: found no matching overload for '_+_' applied to '(string, bool)'\n | \"arn-\" + (deployment.spec.paused)\n | .......^",
        ),
        (
            "any ? 'a' : null",
            "ERROR: <input>:1:5: found no matching overload for '_?_:_' applied to '(dyn, string, null)'\n | any ? 'a' : null\n | ....^",
        ),
        (
            "deployment.spec.replica",
            "ERROR: <input>:1:16: undefined field 'replica'\n | deployment.spec.replica\n | ...............^",
        ),
        (
            "deployment.spec.replicas.x",
            "ERROR: <input>:1:25: type 'int' does not support field selection\n | deployment.spec.replicas.x\n | ........................^",
        ),
        (
            "deployment.spec.replicas && true",
            "ERROR: <input>:1:16: expected type 'bool' but found 'int'\n | deployment.spec.replicas && true\n | ...............^",
        ),
        (
            "deployment.spec.map(x, x)",
            "ERROR: <input>:1:11: expression of type '__type_deployment.spec' cannot be range of a comprehension (must be list, map, or dynamic)\n | deployment.spec.map(x, x)\n | ..........^",
        ),
        (
            "'a'.substring('b')",
            "ERROR: <input>:1:14: found no matching overload for 'substring' applied to 'string.(string)'\n | 'a'.substring('b')\n | .............^",
        ),
        (
            "Foo{}",
            "ERROR: <input>:1:4: undeclared reference to 'Foo' (in container '')\n | Foo{}\n | ...^",
        ),
    ] {
        let error = Environment::kro()
            .compile(source, &declarations())
            .expect_err(source);
        assert_eq!(error.message, want);
    }
}

/// The two definitions among kro's examples that its checker refuses, in its words.
#[test]
fn the_refusals_of_kros_own_examples_read_the_same() {
    let field = |name: &str, ty| (name.to_owned(), ty);
    let log = DeclType::object("log", [field("enabled", DeclType::Bool)]);
    let values = DeclType::object("values", [field("log", log)]);
    let schema = DeclType::object("spec", [field("values", values)]);
    let validation = DeclType::object("v", [field("validationStatus", DeclType::String)]);
    let metadata = DeclType::object("m", [field("arn", DeclType::String)]);
    let status = DeclType::object(
        "status",
        [
            field("domainValidations", DeclType::list(validation)),
            field("ackResourceMetadata", metadata),
        ],
    );
    let certificate = DeclType::object("certificate", [field("status", status)]);
    let declarations = Declarations::new()
        .with(
            "schema",
            DeclType::object("schema", [field("spec", schema)]),
        )
        .with("certificateResource", certificate);
    for (text, want) in [
        (
            "--enable-development-logging=${schema.spec.values.log.enabled}",
            "ERROR: <input>:1:33: found no matching overload for '_+_' applied to '(string, bool)'
 | \"--enable-development-logging=\" + (schema.spec.values.log.enabled)
 | ................................^",
        ),
        (
            "${certificateResource.status.domainValidations[0].validationStatus == \"SUCCESS\" ? \
             certificateResource.status.ackResourceMetadata.arn : null}",
            "ERROR: <input>:1:79: found no matching overload for '_?_:_' applied to '(bool, string, null)'
 | certificateResource.status.domainValidations[0].validationStatus == \"SUCCESS\" ? certificateResource.status.ackResourceMetadata.arn : null
 | ..............................................................................^",
        ),
    ] {
        let source = template::parse(text)
            .expect("no nesting")
            .source()
            .expect("an expression");
        let error = Environment::kro()
            .compile(&source, &declarations)
            .expect_err(text);
        assert_eq!(error.message, want);
    }
}

#[test]
fn a_syntax_error_reads_as_in_cel_go() {
    let error = Environment::kro()
        .compile("1 +\n  * 2", &Declarations::new())
        .expect_err("no expression");
    assert!(
        error
            .message
            .starts_with("ERROR: <input>:2:3: Syntax error: extraneous input '*'"),
        "{error}"
    );
    assert!(error.message.ends_with("\n |   * 2\n | ..^"), "{error}");
    assert_eq!((error.line, error.column), (2, 3));
    assert_eq!(error.kind, CompileErrorKind::Syntax);
}

#[test]
fn every_unknown_name_is_told_once() {
    let error = Environment::kro()
        .compile("b.x + a + a + f(1) + g.h(2)", &declarations())
        .expect_err("nothing is declared");
    assert_eq!(
        error.kind,
        CompileErrorKind::Undeclared {
            identifiers: vec!["b".to_owned(), "a".to_owned(), "g".to_owned()],
            functions: vec!["f".to_owned(), "h".to_owned()],
        }
    );
    assert_eq!(error.message.matches("ERROR").count(), 6, "{error}");
}

#[test]
fn columns_count_characters() {
    let error = Environment::kro()
        .compile("'üü' + x", &Declarations::new())
        .expect_err("x is not declared");
    assert_eq!(error.column, 8, "{error}");
}

#[test]
fn types_are_inferred_as_far_as_they_are_known() {
    for (source, want) in [
        ("1", "int"),
        ("1 == 2", "bool"),
        ("'a' + 'b'", "string"),
        ("deployment.spec.replicas", "int"),
        ("deployment.spec.labels['a']", "string"),
        ("deployment.spec.labels.app", "string"),
        ("deployment.spec.?since", "optional_type(timestamp)"),
        ("deployment.spec.since.getHours()", "int"),
        ("deployment.spec", "__type_deployment.spec"),
        ("deployment.free.whatever", "dyn"),
        ("deployment.free.known", "int"),
        (
            "deployment.spec.`dash-ed` + deployment.spec.dash__dash__ed",
            "string",
        ),
        ("deployment.spec.namespace", "string"),
        ("deployment.ports.map(p, p.n)", "list(int)"),
        ("deployment.ports.filter(p, p.n > 1)[0].n", "int"),
        ("size(any)", "int"),
        ("any", "dyn"),
        ("any.x[0].y", "dyn"),
        ("any == 1 ? 'a' : 'b'", "string"),
        ("any == 1 ? 1 : any", "dyn"),
        ("[1, 2]", "list(int)"),
        ("[1, 'a']", "list(dyn)"),
        ("[]", "list(dyn)"),
        ("{'a': 1}", "map(string, int)"),
        ("{'a': [1]}.merge({'b': [2]})", "map(string, list(int))"),
        ("maybe.orValue('x')", "string"),
        ("maybe.optMap(x, x.size())", "optional_type(int)"),
        ("optional.none()", "optional_type(dyn)"),
        ("[3, 1].sort()[0]", "int"),
        ("deployment.ports.sortBy(p, p.n)[0]", "port"),
        ("cel.bind(x, 1, [x])", "list(int)"),
        (
            "{'a': 1}.transformMap(k, v, string(v))",
            "map(string, string)",
        ),
        ("type(1)", "type(int)"),
        ("quantity('1')", "kubernetes.Quantity"),
        (
            "runtime.newCondition({type: 'A', status: 'True'})",
            "kro.run.Condition",
        ),
        ("dyn(1)", "dyn"),
    ] {
        assert_eq!(compiled(source).result_type().to_string(), want, "{source}");
    }
}

#[test]
fn a_program_knows_what_it_names_calls_and_reads() {
    let program = compiled(
        "deployment.spec.replicas > 1 && any.items.all(i, i.ok && has(any.x.y)) && \
         random.seededInt(0, 1, any.list[0].name) == deployment.spec.labels.size()",
    );
    let identifiers: Vec<&str> = program.identifiers().iter().map(String::as_str).collect();
    assert_eq!(identifiers, ["any", "deployment"]);
    let functions: Vec<&str> = program.functions().iter().map(String::as_str).collect();
    assert_eq!(functions, ["all", "has", "random.seededInt", "size"]);
    let paths: Vec<String> = program.paths().iter().map(ToString::to_string).collect();
    assert_eq!(
        paths,
        [
            "deployment.spec.replicas",
            "any.items",
            "any.x.y",
            "any.list",
            "deployment.spec.labels",
        ]
    );
}

#[test]
fn an_inspection_needs_no_declarations() {
    let found = Environment::kro()
        .inspect("vpc.status.id + frob(x) + math.greatest(1, 2) + base64.encode(b'a') + runtime.a")
        .expect("parses");
    let identifiers: Vec<&str> = found.uses.identifiers.iter().map(String::as_str).collect();
    assert_eq!(identifiers, ["math", "runtime", "vpc", "x"]);
    assert_eq!(found.unknown_functions, ["frob"]);
    assert_eq!(found.unknown_members, ["greatest"]);
    let typed = Environment::kro().inspect("type(a) == int || b == net.IP");
    let named = typed.expect("parses").uses.identifiers;
    assert_eq!(
        Vec::from_iter(named),
        ["a", "b", "int", "net"],
        "types are names"
    );
    assert!(Environment::kro().inspect("1 +").is_err());
}

#[test]
fn a_string_template_is_checked_as_its_concatenation() {
    let parsed = template::parse("arn-${deployment.spec.paused}").expect("no nesting");
    let source = parsed.source().expect("an expression");
    let error = Environment::kro()
        .compile(&source, &declarations())
        .expect_err("a boolean is no string");
    assert!(
        error
            .message
            .contains("found no matching overload for '_+_' applied to '(string, bool)'"),
        "{error}"
    );
    let parsed = template::parse("a-${deployment.spec.labels.app}-${any}").expect("no nesting");
    let program = compiled(&parsed.source().expect("an expression"));
    assert_eq!(program.result_type(), &DeclType::String);
}

#[test]
fn kinds_of_refusals_can_be_told_apart() {
    let long = "a".repeat(100_001);
    let deep = "(".repeat(400);
    for (source, want) in [
        ("1 +", CompileErrorKind::Syntax),
        ("[1].map(1, 2)", CompileErrorKind::Syntax),
        ("1 + 'a'", CompileErrorKind::Type),
        (long.as_str(), CompileErrorKind::Limit),
        (deep.as_str(), CompileErrorKind::Limit),
    ] {
        let error = Environment::kro()
            .compile(source, &Declarations::new())
            .expect_err("refused");
        assert_eq!(error.kind, want, "{}", error.message.len());
    }
}
