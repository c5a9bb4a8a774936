//! Tests of the fast converter.

use super::{super::yaml, *};

/// Everything that the fast converter supports.
const SAMPLE: &str = r#"# A comment
apiVersion: apps/v1
kind: Deployment  # another
metadata:
  name: web
  labels: {app.kubernetes.io/name: web, tier: "front", m: 1}
  annotations:
    "quoted/key": 'it''s "here"'
    escaped: "a\n\"b\" \\ c"
    script: |
      #!/bin/sh
      if true; then echo "a: b" # no comment
          exit 1

      fi
    stripped: |-
      one
      two
    url: http://example.com:80/#top
    tilde: ~
    empty:
spec:
  replicas: 3
  ratio: 1.5
  mode: 0644
  enabled: true
  template:
    spec:
      containers:
      - name: a
        image: registry.example.com/a:1.2.3
        args: ["--listen=:80", '-v', --x, a/b]
        command:
        - /bin/sh
        - -c
        - sleep 1; true
        resources:
          limits: {cpu: 100m, memory: 128Mi}
      -   name: b
          env: []
          securityContext: {}
          ports:
            - containerPort: 80
              protocol: TCP
            -
              containerPort: 0x1F
      - - nested
        - -1
    # the end
  last: 2024-01-01
"#;

fn check(document: &str) -> bool {
    let Some(converted) = convert(document) else { return false };
    let fast: serde_json::Value =
        serde_json::from_str(&converted.json).unwrap_or_else(|error| panic!("{error}: {}\n{document}", converted.json));
    match yaml::convert(document) {
        Ok(slow) => {
            let json = slow.map_or_else(|| "null".to_owned(), |slow| slow.json);
            assert_eq!(fast, serde_json::from_str::<serde_json::Value>(&json).unwrap(), "{document}");
        }
        Err(error) => panic!("only the full parser refuses this: {error:?}\n{document}\n{fast}"),
    }
    true
}

#[test]
fn plain_documents_are_converted() {
    assert!(check(SAMPLE));
    for document in [
        "a: 1",
        "- 1\n- b\n-\n- c: d\n  e: f\n",
        "a:\n- b\n- c\nd:\n  - e\n",
        " # c\na: b\n",
        "a: |\n  x\n\n\nb: c\n",
        "a: \u{e4}\nb: \"\u{4e2d}\u{6587}\"\n",
        "a: [ ]\nb: { }\nc: [1, [2, {d: e}]]\n",
        "a: 1e3\nb: 1_000\nc: -5\nd: +1\ne: .5\n",
        "a: 100m\nb: 1.2.3\nc: 12:30\nd: --flag\ne: -x y\nf: ./x\ng: 010\nh: 08\ni: 1e999\n",
    ] {
        assert!(check(document), "{document}");
    }
}

#[test]
fn other_documents_are_left_to_the_full_parser() {
    for document in [
        "",
        "# c\n",
        "a",
        "a: &x 1\nb: *x\n",
        "a: !!str 1\n",
        "a: >\n  x\n",
        "a: |+\n  x\n",
        "a: |2\n   x\n",
        "a: |\n  \tx\n",
        "a: b\n  c\n",
        "a: 'b\n  c'\n",
        "a: yes\n",
        "yes: 1\n",
        "1: a\n",
        "a: 1\na: 2\n",
        "a: {b: 1, b: 2}\n",
        "a: b: c\n",
        "a: b:\n",
        "a:\tb\n",
        "\ta: b\n",
        "a: \"\\x41\"\n",
        "a\r\n",
        "a: [1,\n 2]\n",
        "a: \u{2028}\n",
        "<<: {a: 1}\n",
        "? a\n: b\n",
        "a: |\n  x",
        "a:\n    b: 1\n  c: 2\n",
        "a: |\n    x\n  # c\nb: 1\n",
        "- a\nb: c\n",
        "a: [b: c]\n",
        "a: [1,]\n",
        "%YAML 1.1\n",
        "a: \"b\" c\n",
        "a: @b\n",
        "a: 'b'#c\n",
    ] {
        assert!(convert(document).is_none(), "{document:?}");
    }
}

#[test]
fn items_have_their_lines() {
    let lines = |converted: &Converted| {
        let begins = |at: usize| converted.json.as_bytes()[at];
        converted.items.iter().map(|(at, line)| (begins(*at), *line)).collect::<Vec<_>>()
    };
    for (document, items) in [
        ("# c\nkind: List\nitems:\n- a: 1\n  b: |\n    x\n    y\n\n# c\n- a: 2\n", vec![(b'{', 3), (b'{', 9)]),
        ("kind: List\n\nitems: [{a: 1}, {a: [1, 2]}]\n", vec![(b'{', 2), (b'{', 2)]),
        ("- a: 1\n- - b: 1\n  - c: 1\n", vec![(b'{', 0), (b'[', 1), (b'{', 1), (b'{', 2)]),
        ("items:\n- items:\n  - a: [1, 2]\n    b:\n    - 1\n  - c\n", vec![(b'{', 1), (b'{', 2), (b'"', 5)]),
    ] {
        assert_eq!(lines(&convert(document).unwrap()), items, "{document}");
        assert_eq!(lines(&yaml::convert(document).unwrap().unwrap()), items, "{document}");
    }
}

/// Damages documents at random: any document that is still converted has the same meaning for the full parser.
/// `KAUDIT_FUZZ` sets the number of rounds.
#[test]
fn damaged_documents_have_the_same_meaning_for_both_parsers() {
    const PIECES: [&str; 48] = [
        ":", ": ", " #", "#", "-", "- ", "--", "'", "\"", "''", "|", "|-", "|+", ">", "{", "}", "[", "]", ", ", ",",
        "&a ", "*a", "!", "!!str ", "%", "@", "\n", "\n\n", " ", "  ", "\t", "?", "? ", "~", "0", "07", "1.", "e5",
        "_", "y", "no", ".", "\\", "\\n", "\u{e4}", "<<", "null", "=",
    ];
    let rounds = std::env::var("KAUDIT_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000);
    let mut random = fastrand::Rng::with_seed(7);
    let lines: Vec<&str> = SAMPLE.lines().collect();
    let mut converted = 0;
    for _ in 0..rounds {
        // Some consecutive lines: in small documents damage is more likely to hit relevant syntax.
        let from = random.usize(..lines.len());
        let to = (from + random.usize(1..12)).min(lines.len());
        let indent = lines[from].len() - lines[from].trim_start().len();
        let cut = |line: &&str| line.get(indent..).unwrap_or_default().to_owned() + "\n";
        let mut document: String = lines[from..to].iter().map(cut).collect();
        for _ in 0..random.usize(0..3) {
            let mut at = random.usize(..=document.len());
            while !document.is_char_boundary(at) {
                at -= 1;
            }
            if random.bool() && at < document.len() {
                document.remove(at);
            } else {
                document.insert_str(at, random.choice(PIECES).unwrap());
            }
        }
        // Document markers are handled before conversion.
        if !document.starts_with("---")
            && !document.contains("\n---")
            && !document.contains("\n...")
            && !document.starts_with("...")
        {
            converted += usize::from(check(&document));
        }
    }
    assert!(converted > rounds / 10, "{converted} of {rounds}");
}
