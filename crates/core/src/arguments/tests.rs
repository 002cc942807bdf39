use proptest::prelude::*;
use serde_json::json;

use super::path::Path;
use super::schema::Guide;
use super::*;

/// Arguments of every kind, nested a little.
fn arguments() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z\"\\\\中\n]{0,8}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c\"中 ]{0,3}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-z]{1,3}", value, 0..5)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn any_text_is_read_or_refused(text in r#"([\[\]{}:,"'\\`]|null|true|-|[0-9]|e|\.|[a-z]| |\n|中|\u{0}){0,40}"#) {
        if let Ok(arguments) = read(&text) {
            prop_assert!(arguments.value.is_object());
            prop_assert_eq!(arguments.text.to_value(), arguments.value);
        }
    }

    #[test]
    fn what_is_written_is_read_as_the_same(value in arguments()) {
        let arguments = read(&value.to_string()).unwrap();
        prop_assert_eq!(&arguments.value, &value);
        prop_assert_eq!(arguments.tree.to_value(), value.clone());
        prop_assert_eq!(read(&arguments.tree.to_string()).unwrap().tree, arguments.tree);
        prop_assert!(arguments.repairs.is_empty());
        prop_assert_eq!(read(&Value::from(value.to_string()).to_string()).unwrap().value, value);
    }

    #[test]
    fn no_start_of_a_call_is_ever_a_call(value in arguments(), cut in 0.0..1.0_f64) {
        let text = format!("{{\"first\":{value}}}");
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a short text")]
        let length = 1 + ((text.len() - 1) as f64 * cut) as usize;
        let start = crate::excerpt::head(&text, length);
        prop_assume!(!start.is_empty());
        prop_assert!(matches!(read(start), Err(Unreadable::Unterminated { .. })), "{start}");
    }

    #[test]
    fn what_fits_already_is_left_alone(value in arguments()) {
        let Value::Object(map) = &value else { unreachable!() };
        let kind = |value: &Value| json!({ "type": match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        } });
        let properties: Value = map.iter().map(|(key, value)| (key.clone(), kind(value))).collect();
        let mut tree = read(&value.to_string()).unwrap().tree;
        let before = tree.clone();
        prop_assert_eq!(fit(&mut tree, &json!({ "type": "object", "properties": properties })), vec![]);
        prop_assert_eq!(tree, before);
    }
}

#[test]
fn a_path_reads_like_one() {
    let root = Path::ROOT;
    let (items, third) = (root.key("items"), 2);
    let item = items.index(third);
    assert_eq!(item.key("sku").written(), "$.items[2].sku");
    assert_eq!(item.key("odd \"key\"").written(), r#"$.items[2]["odd \"key\""]"#);
    assert_eq!(item.key("").written(), r#"$.items[2][""]"#);
    assert!(item.key(&"k".repeat(1000)).written().len() < 100);
}

#[test]
fn a_schema_too_clever_to_follow_allows_everything() {
    let mut defs = serde_json::Map::new();
    for n in 0..40 {
        let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
        defs.insert(format!("d{n}"), json!({ "anyOf": [next, next] }));
    }
    defs.insert("d40".into(), json!({ "type": "integer" }));
    let root = json!({ "$ref": "#/$defs/d0", "$defs": defs });
    assert!(Guide::new(&root).types(&root).contains(jsonschema::JsonType::String));
    let circle = json!({ "$ref": "#" });
    assert!(Guide::new(&circle).types(&circle).contains(jsonschema::JsonType::String));
}
