use dauntless_contract::MicroUsd;
use dauntless_core::plan::{Join, Rule};
use dauntless_core::tree::{Hears, LinkKind, OnFailure};

use super::*;

/// Three agents, of which the first one asks the others.
const TEAM: &str = r#"
[model]
provider = "openai"
name = "gpt-5-mini"

[agents.lead]
instructions = "Lead."
agents = ["researcher"]
join = { quorum = 1 }

[agents.lead.links.writer]
hears = "conversation"
retries = 2
fallback = "researcher"
on_failure = "observe"
allowance = { tokens = 5000, wall_clock = "30s", children = 0 }

[agents.researcher]
instructions = "Find sources."
description = "Finds sources."
input = { type = "object", properties = { topic = { type = "string" } }, required = ["topic"] }

[agents.writer]
instructions = "Write."
answer = { type = "object", properties = { title = { type = "string" } } }
limits = { turns = 3 }
"#;

/// The team with more.
fn team(more: &str) -> Result<Config, Report> {
    read(&format!("{TEAM}{more}"))
}

#[test]
fn what_is_written_of_links_arrives_and_the_rest_is_safe() {
    let config = team("[limits]\nchildren = 7\ndepth = 3\nchildren_at_once = 2").unwrap();
    let links = &config.agents["lead"].links;
    assert_eq!(links.join, Join::Quorum(1));
    assert_eq!(links.agents().map(|name| &**name).collect::<Vec<_>>(), ["researcher", "writer"]);
    let plain = links.get("researcher").unwrap();
    assert_eq!(
        *plain,
        dauntless_core::tree::Link::new("researcher", config.agents["researcher"].limits.clone())
    );
    let link = links.get("writer").unwrap();
    assert_eq!((link.kind, link.hears, link.shaped), (LinkKind::Delegate, Hears::Conversation, true));
    assert_eq!((link.policy.retries, link.policy.on_failure), (2, OnFailure::Observe));
    assert_eq!((link.policy.fallback.as_deref(), link.limits.turns), (Some("researcher"), 3));
    assert_eq!((link.allowance.tokens, link.allowance.cost), (Some(Tokens(5000)), None));
    assert_eq!(
        (link.allowance.children, link.allowance.wall_clock),
        (Some(0), Some(Duration::from_secs(30)))
    );
    let limits = &config.agents["lead"].limits;
    assert_eq!((limits.children, limits.depth, limits.children_at_once), (7, 3, 2));
    let researcher = &config.agents["researcher"];
    assert_eq!(researcher.description.as_deref(), Some("Finds sources."));
    assert_eq!(researcher.face().input.unwrap()["required"][0], "topic");
    assert_eq!(config.agents["writer"].face().output.unwrap()["type"], "object");
}

#[test]
fn every_mistake_in_links_is_reported_at_once_at_its_place() {
    let text = r#"
[model]
provider = "openai"
name = "gpt-5-mini"

[agents.lead]
instructions = "Lead."
agents = ["wirter", "writer", "writer", "count"]
tools = ["count"]
join = { quorum = 0 }

[agents.lead.links.writer]
kind = "handover"
retries = -1
fallback = "editor"
allowance = { tokens = 0 }

[agents.lead.links.nobody]
[agents.lead.links.count]
offered = false
kind = "handoff"
hears = "input"

[agents.writer]
instructions = "Write."
agents = ["editor"]
limits = { depth = 1 }

[agents.editor]
instructions = "Edit."
agents = ["writer"]
links.writer.fallback = "lead"

[agents.count]
instructions = "Count."
join = "all"

[tools.count]
description = "Counts."
command.argv = ["true"]
"#;
    expect![[r#"
        dauntless.toml:8:11: agents.lead.agents[0]: expected the name of an agent in this file, found "wirter"; did you mean "writer"?
          8 | agents = ["wirter", "writer", "writer", "count"]
            |           ^^^^^^^^
        dauntless.toml:8:31: agents.lead.agents[2]: expected each agent once, found "writer" again
          8 | agents = ["wirter", "writer", "writer", "count"]
            |                               ^^^^^^^^
        dauntless.toml:8:41: agents.lead.agents[3]: the agent `count` and the tool `count` would be one name to its model: rename one of the two
          8 | agents = ["wirter", "writer", "writer", "count"]
            |                                         ^^^^^^^
        dauntless.toml:10:1: agents.lead.join: expected "all", "first_success", "best_effort" or { quorum = N } with N of 1 or more, found a table
          10 | join = { quorum = 0 }
             | ^^^^
        dauntless.toml:13:8: agents.lead.links.writer.kind: expected "delegate" or "handoff", found "handover"; did you mean "handoff"?
          13 | kind = "handover"
             |        ^^^^^^^^^^
        dauntless.toml:14:11: agents.lead.links.writer.retries: expected a whole number of 0 or more, found -1
          14 | retries = -1
             |           ^^
        dauntless.toml:15:12: agents.lead.links.writer.fallback: `editor` is not linked: add it to `agents`, or take the fallback out
          15 | fallback = "editor"
             |            ^^^^^^^^
        dauntless.toml:16:24: agents.lead.links.writer.allowance.tokens: expected a whole number from 1 to 1000000000000000, found 0
          16 | allowance = { tokens = 0 }
             |                        ^
        dauntless.toml:18:20: agents.lead.links.nobody: expected the name of an agent in this file, found "nobody"; there is count, editor, lead, writer
          18 | [agents.lead.links.nobody]
             |                    ^^^^^^
        dauntless.toml:20:11: agents.lead.links.count.offered: nobody would ever ask it: name it as the `fallback` of another, or leave this out
          20 | offered = false
             |           ^^^^^
        dauntless.toml:22:9: agents.lead.links.count.hears: an agent that takes the conversation over hears all of it: leave this out
          22 | hears = "input"
             |         ^^^^^^^
        dauntless.toml:27:20: agents.writer.limits.depth: it may ask other agents, and with this none could ever start: use 2 or more
          27 | limits = { depth = 1 }
             |                    ^
        dauntless.toml:31:10: agents.editor.agents: its links lead back to it (`editor` → `writer` → `editor`), so that agents could ask each other for ever: take one of them out
          31 | agents = ["writer"]
             |          ^^^^^^^^^^
        dauntless.toml:32:25: agents.editor.links.writer.fallback: `lead` is not linked: add it to `agents`, or take the fallback out
          32 | links.writer.fallback = "lead"
             |                         ^^^^^^
        dauntless.toml:36:8: agents.count.join: it has no effect on an agent that may ask no other: set `agents`, or leave this out
          36 | join = "all"
             |        ^^^^^
        dauntless.toml: 15 mistakes"#]].assert_eq(&read(text).unwrap_err().to_string());
}

#[test]
fn a_limit_in_usd_needs_the_price_of_everybody_below() {
    let text = TEAM.replace(
        "[agents.researcher]",
        "[agents.lead.limits]\nusd = 1.0\n[agents.researcher]\nmodel = \"m\"",
    );
    let text = text.replace(
        "name = \"gpt-5-mini\"\n",
        "name = \"gpt-5-mini\"\nprice = { input_usd_per_million = 0, output_usd_per_million = 0 }\n",
    );
    let priced =
        |price: &str| read(&format!("{text}[models.m]\nprovider = \"openai\"\nname = \"gpt-5\"\n{price}"));
    let config = priced("price = { input_usd_per_million = 1, output_usd_per_million = 1 }").unwrap();
    assert_eq!(config.agents["lead"].limits.cost, MicroUsd(1_000_000));
    check(
        priced(""),
        expect![[r#"
        agents.lead.limits.usd: expected `price` on model "m", without which this limit is never reached, found none; a free model has a price of 0.0
    "#]],
    );
}

/// Each kind of part once.
const PLAN: &str = r#"
[plans.report]
limits = { wall_clock = "5m", children = 20 }

[[plans.report.sequence]]
route.cases = [{ when = { contains = "poem" }, then = { agent = { name = "writer", input = "A poem on {goal}" } } }]
route.otherwise = { agent = { name = "lead" } }

[[plans.report.sequence]]
parallel = { of = [{ agent = { name = "lead" } }, { agent = { name = "writer" } }], join = "first_success", at_once = 2 }

[[plans.report.sequence]]
loop = { body = { agent = { name = "lead" } }, until = { equals = "done" }, max = 1 }

[[plans.report.sequence]]
route.by = { agent = { name = "lead" } }
route.cases = [{ when = { field = { at = "/kind", is = "long" } }, then = { agent = { name = "lead" } } }]
route.otherwise = { agent = { name = "writer" } }

[[plans.report.sequence]]
[plans.report.sequence.improve]
produce = { agent = { name = "writer" } }
evaluate = { agent = { name = "lead" } }
accept = { at_least = { at = "/score", least = 7.5 } }
max = 3
"#;

#[test]
fn a_plan_arrives_whole_and_is_told_as_a_tree() {
    let config = team(PLAN).unwrap();
    let plan = &config.plans["report"];
    assert_eq!((plan.limits.wall_clock, plan.limits.children), (Duration::from_secs(300), 20));
    assert_eq!(plan.agents().iter().map(|name| &**name).collect::<Vec<_>>(), ["lead", "writer"]);
    expect![[r#"
        one after the other
          one of these
            if it holds "poem": agent writer
            otherwise: agent lead
          at once, the first success is enough
            agent lead
            agent writer
          until it is "done", at most once
            agent lead
          one of these, by a class
            class: agent lead
            if it has "long" at "/kind": agent lead
            otherwise: agent writer
          improved until the review has 7.5 or more at "/score", at most 3 times
            made by agent writer
            reviewed by agent lead"#]]
    .assert_eq(&plan.outline().join("\n"));
    let again = toml::from_str::<Value>(PLAN).unwrap()["plans"]["report"]["sequence"].take();
    let written = serde_json::json!({ "sequence": again });
    assert_eq!(plan.plan, serde_json::from_value(written).unwrap(), "the form is that of `core`");
}

#[test]
fn every_mistake_in_plans_is_reported_at_once_at_its_place() {
    let text = r#"
[plans.writer]
agent = { name = "lead" }

[plans.empty]
limits = { turns = 3, depth = 1 }

[plans.two]
agent = { name = "lead" }
sequence = []

[plans.odd]
sequnce = []

[plans.deep]
[[plans.deep.sequence]]
agent = { name = "wirter", input = "Of {gaol} and {inptu}" }

[[plans.deep.sequence]]
parallel = { of = [{ agent = { nam = "lead" } }], join = { quorum = 3 } }

[[plans.deep.sequence]]
parallel = { of = [{ agent = { name = "lead" } }], join = { quorum = 3 }, at_once = 0 }

[[plans.deep.sequence]]
parallel = { of = [{ agent = { name = "lead" } }], join = "most" }

[plans.rules]
[plans.rules.route]
cases = [
  { when = { contains = " " }, then = { agent = { name = "lead", input = "" } } },
  { when = { contains = "a", equals = "b" }, then = { agent = { name = "lead" } } },
  { when = {}, then = { agent = { name = "lead" } } },
]
otherwise = { agent = { name = "lead" }, loop = { body = { agent = { name = "lead" } }, until = { equals = "x" }, max = 1 } }

[plans.rounds.loop]
body = { agent = { name = "lead" } }
until = { field = { at = "state", is = true } }
max = 0

[plans.types]
sequence = [{ agent = { name = "writer" } }, { agent = { name = "researcher" } }]
"#;
    expect![[r#"
        dauntless.toml:28:8: plans.writer: expected another name than that of an agent, for both are run by their name, found "writer"
          28 | [plans.writer]
             |        ^^^^^^
        dauntless.toml:31:8: plans.empty: expected exactly one of the keys agent, sequence, parallel, route, loop, improve, found none
          31 | [plans.empty]
             |        ^^^^^
        dauntless.toml:32:20: plans.empty.limits.turns: a plan asks no model itself, so this would limit nothing: set it on its agents
          32 | limits = { turns = 3, depth = 1 }
             |                    ^
        dauntless.toml:32:31: plans.empty.limits.depth: a plan asks agents, and with this none could ever start: use 2 or more
          32 | limits = { turns = 3, depth = 1 }
             |                               ^
        dauntless.toml:34:8: plans.two: expected exactly one of the keys agent, sequence, parallel, route, loop, improve, found agent and sequence
          34 | [plans.two]
             |        ^^^
        dauntless.toml:39:1: plans.odd.sequnce: unknown key; did you mean `sequence`?
          39 | sequnce = []
             | ^^^^^^^
        dauntless.toml:43:18: plans.deep.sequence[0].agent.name: expected the name of an agent in this file, found "wirter"; did you mean "writer"?
          43 | agent = { name = "wirter", input = "Of {gaol} and {inptu}" }
             |                  ^^^^^^^^
        dauntless.toml:46:22: plans.deep.sequence[1].parallel.of[0].agent.name: missing; expected a text in quotes
          46 | parallel = { of = [{ agent = { nam = "lead" } }], join = { quorum = 3 } }
             |                      ^^^^^
        dauntless.toml:46:32: plans.deep.sequence[1].parallel.of[0].agent.nam: unknown key; did you mean `name`?
          46 | parallel = { of = [{ agent = { nam = "lead" } }], join = { quorum = 3 } }
             |                                ^^^
        dauntless.toml:49:85: plans.deep.sequence[2].parallel.at_once: expected a whole number of 1 or more, found 0
          49 | e = "lead" } }], join = { quorum = 3 }, at_once = 0 }
             |                                                   ^
        dauntless.toml:52:59: plans.deep.sequence[3].parallel.join: expected "all", "first_success", "best_effort" or { quorum = N } with N of 1 or more, found "most"
          52 |  = { of = [{ agent = { name = "lead" } }], join = "most" }
             |                                                   ^^^^^^
        dauntless.toml:58:5: plans.rules.route.cases[1].when: expected exactly one of the keys contains, equals, field, at_least, found contains and equals
          58 |   { when = { contains = "a", equals = "b" }, then = { agent = { name = "lead" } } },
             |     ^^^^
        dauntless.toml:59:5: plans.rules.route.cases[2].when: expected exactly one of the keys contains, equals, field, at_least, found none
          59 |   { when = {}, then = { agent = { name = "lead" } } },
             |     ^^^^
        dauntless.toml:61:1: plans.rules.route.otherwise: expected exactly one of the keys agent, sequence, parallel, route, loop, improve, found agent and loop
          61 | otherwise = { agent = { name = "lead" }, loop = { body = { agent = { name = "lead" } }, until = { eq
             | ^^^^^^^^^
        dauntless.toml:66:7: plans.rounds.loop.max: expected a whole number of 1 or more, found 0
          66 | max = 0
             |       ^
        dauntless.toml:69:48: plans.types.sequence[1].agent: `writer` does not give what `researcher` takes: $.topic is wanted, and need not be there
          69 | sequence = [{ agent = { name = "writer" } }, { agent = { name = "researcher" } }]
             |                                                ^^^^^
        dauntless.toml: 16 mistakes"#]].assert_eq(&team(text).unwrap_err().to_string());
}

#[test]
fn a_rule_of_a_plan_that_can_hold_for_nothing_is_at_its_place() {
    let rules = "[plans.p.loop]\nbody = { agent = { name = \"lead\" } }\nmax = 2\nuntil = ";
    for rule in ["{ equals = \" \" }", "{ at_least = { at = \"x\", least = 1 } }"] {
        let report = team(&format!("{rules}{rule}\n")).unwrap_err();
        assert_eq!(report.mistakes()[0].path, "plans.p.loop.until", "{report}");
    }
    let config = team(&format!("{rules}{{ at_least = {{ at = \"/x\", least = 1 }} }}\n")).unwrap();
    let Plan::Loop(again) = &config.plans["p"].plan else { panic!("a loop") };
    assert_eq!(again.until, Rule::AtLeast { at: "/x".into(), least: 1.0 });
}
