use std::path::PathBuf;

use expect_test::expect;

use super::*;
use crate::config::StoreAddress;

const FILE: &str = r#"
journal = "sqlite:j.db"

[models.quick]
provider = "openai"
name = "gpt-5-mini"
api_key_env = "QUICK_KEY"
fallback = "careful"

[models.careful]
provider = "scripted"
script = "careful.toml"

[models.unused]
provider = "openai"
name = "gpt-5"

[limits]
turns = 9
wall_clock = "2d"

[agents.clerk]
instructions_file = "clerk.md"
model = "quick"
tools = ["stock", "order"]
answer_file = "answer.json"
limits = { turns = 5 }

[agents.other]
instructions = "Rest."
model = "unused"
tools = ["letter"]

[tools.order]
description = "Looks up an order."
http.url = "https://orders.example.com/{id}"
http.headers = { authorization = "Bearer ${ORDER_KEY}" }
parameters_file = "order.json"

[tools.stock]
description = "Counts what is there."
effect = "read_only"
command.argv = ["./count", "all"]

[tools.letter]
description = "Sends a letter."
command.argv = ["true"]
"#;

/// A folder with the files that the configuration names; gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dauntless-pin-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let folder = Self(path);
        folder.write("clerk.md", "Be brief.");
        folder.write("careful.toml", "");
        folder.write("answer.json", r#"{"type":"object","required":["b","a"]}"#);
        folder.write(
            "order.json",
            r#"{"type":"object","properties":{"id":{"type":"string"}},"additionalProperties":false}"#,
        );
        folder
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    fn read(&self, text: &str) -> Config {
        config::parse(text, "dauntless.toml", &self.0).unwrap_or_else(|report| panic!("{report}"))
    }

    fn pin(&self, text: &str) -> String {
        String::from_utf8(pin(&self.read(text), "clerk").unwrap().to_vec()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_pin_holds_what_the_agent_needs_and_nothing_else() {
    let folder = Folder::new("holds");
    let pinned = folder.pin(FILE).replace(folder.0.to_str().unwrap(), "/folder");
    expect![[r#"
        {
          "agents": {
            "clerk": {
              "answer": {
                "required": [
                  "b",
                  "a"
                ],
                "type": "object"
              },
              "instructions": "Be brief.",
              "limits": {
                "turns": 5,
                "wall_clock": "2d"
              },
              "model": "quick",
              "tools": [
                "stock",
                "order"
              ]
            }
          },
          "models": {
            "careful": {
              "provider": "scripted",
              "script": "/folder/careful.toml"
            },
            "quick": {
              "api_key_env": "QUICK_KEY",
              "fallback": "careful",
              "name": "gpt-5-mini",
              "provider": "openai"
            }
          },
          "tools": {
            "order": {
              "description": "Looks up an order.",
              "http": {
                "headers": {
                  "authorization": "Bearer ${ORDER_KEY}"
                },
                "url": "https://orders.example.com/{id}"
              },
              "parameters": {
                "additionalProperties": false,
                "properties": {
                  "id": {
                    "type": "string"
                  }
                },
                "type": "object"
              }
            },
            "stock": {
              "command": {
                "argv": [
                  "./count",
                  "all"
                ]
              },
              "description": "Counts what is there.",
              "effect": "read_only"
            }
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&serde_json::from_str::<Value>(&pinned).unwrap()).unwrap());
    assert_eq!(pin(&folder.read(FILE), "nobody"), None);
}

#[test]
fn what_is_laid_out_otherwise_is_the_same_agent() {
    let folder = Folder::new("same");
    let pinned = folder.pin(FILE);
    let parts: Vec<&str> = FILE.split("\n[").collect();
    let turned: Vec<String> =
        parts.iter().skip(1).rev().map(|part| format!("# A comment.\n[{part}\n")).collect();
    let turned = format!("journal = \"sqlite:elsewhere.db\"\n{}", turned.concat());
    let same = [
        turned,
        FILE.replace("Rest.", "Work."),
        FILE.replace("Sends a letter.", "Sends letters."),
        FILE.replace("turns = 9", "turns = 8"),
        FILE.replace("turns = 9\nwall_clock = \"2d\"", "")
            .replace("{ turns = 5 }", "{ wall_clock = \"2d\", turns = 5 }"),
        FILE.replace("instructions_file = \"clerk.md\"", "instructions = \"Be brief.\""),
        format!("{FILE}\n[redact]\npatterns = [\"x\"]\n[chaos]\nenabled = true\n[worker]\ncapacity = 1\n"),
    ];
    for text in same {
        assert_eq!(folder.pin(&text), pinned, "{text}");
    }
}

#[test]
fn what_the_agent_does_otherwise_is_another_one() {
    let folder = Folder::new("other");
    let pinned = folder.pin(FILE);
    let other = [
        FILE.replace("wall_clock = \"2d\"", "wall_clock = \"3d\""),
        FILE.replace("Counts what", "Tells what"),
        FILE.replace("[\"stock\", \"order\"]", "[\"order\", \"stock\"]"),
        FILE.replace("QUICK_KEY", "SLOW_KEY"),
        FILE.replace("fallback = \"careful\"", ""),
    ];
    for text in other {
        assert_ne!(folder.pin(&text), pinned, "{text}");
    }
    folder.write("clerk.md", "Be long.");
    assert_ne!(folder.pin(FILE), pinned);
}

#[test]
fn a_pin_is_the_agent_again_after_its_files_are_gone() {
    let folder = Folder::new("again");
    let before = folder.read(FILE);
    let pinned = pin(&before, "clerk").unwrap();
    for name in ["clerk.md", "answer.json", "order.json"] {
        std::fs::remove_file(folder.0.join(name)).unwrap();
    }
    let process = "journal = \"sqlite:/other.db\"\n[model]\nprovider = \"openai\"\nname = \"m\"\n\
         [agents.a]\ninstructions = \"A.\"\n[redact]\npatterns = [\"ORD-[0-9]+\"]\n";
    let after = restore(&pinned, &folder.read(process)).unwrap();
    let shown = |config: &Config| {
        let agent = &config.agents["clerk"];
        let models: Vec<_> = ["quick", "careful"].map(|name| &config.models[name]).into();
        format!("{agent:#?}{models:#?}{:#?}{:#?}", config.tools["order"], config.tools["stock"])
    };
    assert_eq!(shown(&after), shown(&before));
    assert_eq!((after.agents.len(), after.models.len(), after.tools.len()), (1, 2, 2));
    assert_eq!(pin(&after, "clerk").unwrap(), pinned);
    let at = config::StoreConfig::At(StoreAddress::Sqlite("/other.db".into()));
    assert_eq!((after.journal.store, after.redact.len()), (at, 1));
}

#[test]
fn what_cannot_be_taken_is_said_without_a_place_that_nobody_can_see() {
    let folder = Folder::new("refused");
    let process = folder.read(FILE);
    let pinned = pin(&process, "clerk").unwrap();
    let text = String::from_utf8(pinned.to_vec()).unwrap().replace("\"fallback\"", "\"fall_back\"");
    let refused = [
        restore(b"[journal]", &process).unwrap_err().to_string(),
        restore(text.as_bytes(), &process).unwrap_err().to_string(),
    ];
    expect![[r#"
        the configuration that the run is pinned to is not readable: expected value at line 1 column 2
        the configuration that the run is pinned to: models.quick.fall_back: unknown key; did you mean `fallback`?"#]].assert_eq(&refused.join("\n"));
}

/// A desk that asks the clerk, who asks another; and a plan in which the desk works.
const TEAM: &str = r#"
[agents.desk]
instructions = "Answer."
model = "careful"
agents = ["clerk"]
links.clerk.allowance = { tokens = 100 }
input_file = "order.json"

[plans.reply]
sequence = [{ agent = { name = "desk" } }, { agent = { name = "other", input = "{goal}" } }]

[plans.alone]
agent = { name = "other" }
limits = { children = 1 }
"#;

fn names(pinned: &[u8], section: &str) -> String {
    let pinned: Value = serde_json::from_slice(pinned).unwrap();
    let table = pinned[section].as_object().into_iter().flatten();
    table.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_pin_holds_whatever_the_agents_below_need() {
    let folder = Folder::new("below");
    let config = folder.read(&format!("{FILE}{TEAM}"));
    let desk = pin(&config, "desk").unwrap();
    let holds = |pinned: &[u8]| ["plans", "agents", "models", "tools"].map(|section| names(pinned, section));
    assert_eq!(holds(&desk), ["", "clerk desk", "careful quick", "order stock"]);
    let reply = pin(&config, "reply").unwrap();
    assert_eq!(holds(&reply), ["reply", "clerk desk other", "careful quick unused", "letter order stock"]);
    assert_eq!(holds(&pin(&config, "alone").unwrap()), ["alone", "other", "unused", "letter"]);
    // The clerk is the same whoever asks it, and asks nobody.
    assert_eq!(String::from_utf8(pin(&config, "clerk").unwrap().to_vec()).unwrap(), folder.pin(FILE));

    for name in ["clerk.md", "answer.json", "order.json"] {
        std::fs::remove_file(folder.0.join(name)).unwrap();
    }
    let process =
        folder.read("[model]\nprovider = \"openai\"\nname = \"m\"\n[agents.a]\ninstructions = \"A.\"\n");
    for (name, pinned) in [("desk", desk), ("reply", reply), ("alone", pin(&config, "alone").unwrap())] {
        let after = restore(&pinned, &process).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(pin(&after, name).unwrap(), pinned);
        let shown = |config: &Config| {
            let known = after.agents.keys().map(|name| &config.agents[name]).collect::<Vec<_>>();
            format!("{known:#?}{:#?}", config.plans.get(name))
        };
        assert_eq!(shown(&after), shown(&config));
    }
}

#[test]
fn a_change_of_an_agent_below_is_a_change() {
    let folder = Folder::new("deep");
    let text = format!("{FILE}{TEAM}");
    let pinned = |text: &str, name| pin(&folder.read(text), name).unwrap();
    let changed = [
        text.replace("tokens = 100", "tokens = 101"),
        text.replace("Counts what", "Tells what"),
        text.replace("limits = { turns = 5 }", "limits = { turns = 6 }"),
    ];
    for changed in changed {
        assert_ne!(pinned(&changed, "desk"), pinned(&text, "desk"), "{changed}");
        assert_ne!(pinned(&changed, "reply"), pinned(&text, "reply"), "{changed}");
        assert_eq!(pinned(&changed, "alone"), pinned(&text, "alone"), "{changed}");
    }
}
