//! The specs are what prompts and policy rest on.

use domain::{Effect, Risk};
use serde_json::Value;

#[test]
fn the_order_and_the_classes_are_fixed() {
    let tools = runner::builtin();
    let classes: Vec<_> =
        tools.iter().map(|tool| (tool.name.as_str(), tool.effect, tool.risk, tool.parallel)).collect();
    let looks = |name| (name, Effect::Read, Risk::Read, true);
    let changes = |name| (name, Effect::WorkspaceWrite, Risk::Workspace, false);
    assert_eq!(
        classes,
        [looks("read"), looks("list"), looks("search"), changes("edit"), changes("write"), changes("shell")]
    );
    assert_eq!(tools, runner::builtin());
}

#[test]
fn schemas_are_strict_objects() {
    for tool in runner::builtin() {
        let schema: Value = serde_json::from_str(&tool.input_schema).unwrap();
        assert_eq!(schema["type"], "object", "{}", tool.name);
        assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
        for required in schema["required"].as_array().unwrap() {
            assert!(schema["properties"].get(required.as_str().unwrap()).is_some(), "{}", tool.name);
        }
    }
}
