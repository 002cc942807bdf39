use super::{CallIds, NoText, Profile};

#[test]
fn a_provider_is_known_by_its_own_host_and_by_no_other() {
    for (host, profile) in [
        ("api.openai.com", Profile::openai()),
        ("eu.api.openai.com", Profile::openai()),
        ("mine.openai.azure.com", Profile::openai()),
        ("api.mistral.ai", Profile::mistral()),
        ("api.groq.com", Profile::groq()),
        ("api.deepseek.com", Profile::deepseek()),
        ("generativelanguage.googleapis.com", Profile::gemini()),
        ("api.cloudflare.com", Profile::cloudflare()),
        ("gateway.ai.cloudflare.com", Profile::cloudflare()),
        ("openrouter.ai", Profile::compatible()),
        ("notmistral.ai", Profile::compatible()),
        ("mistral.ai.example.com", Profile::compatible()),
        ("127.0.0.1", Profile::compatible()),
    ] {
        assert_eq!(Profile::of_host(host), profile, "{host}");
    }
}

#[test]
fn a_profile_differs_only_where_its_provider_does() {
    let Profile { call_ids, no_text, send_back, stream_options, completion_tokens } = Profile::compatible();
    assert_eq!((call_ids, no_text), (CallIds::Any, NoText::Null));
    assert_eq!(send_back, ["reasoning_content", "reasoning_details", "extra_content"]);
    assert!(stream_options && !completion_tokens);
    assert_eq!(Profile::cloudflare().send_back, Profile::compatible().send_back);
    assert!(Profile::groq().send_back.is_empty());
}
