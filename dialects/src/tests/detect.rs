//! Families are told apart by what their templates write.

use crate::{Dialect, Reasoning, ends_in_reasoning};

#[test]
fn a_template_gives_its_family_away() {
    let rows = [
        ("{{ messages }}", Dialect::Plain, Reasoning::None),
        (r#"<tool_call>\n{"name": <function-name>, "arguments": <args>}\n</tool_call>"#, Dialect::Hermes, Reasoning::None),
        (r#"'<tool_call>\n{\"name\": \"' … '\", \"arguments\": ' … content.split('</think>')"#, Dialect::Hermes, Reasoning::Think),
        (r"'<tool_call>\n<function=' + name + '>\n<parameter=' … '<think>\n' … '</think>'", Dialect::QwenCoder, Reasoning::Think),
        (r#"'<|start_header_id|>' … 'Respond in the format {"name": function name, "parameters": dictionary'"#, Dialect::Llama3, Reasoning::None),
        (r"'[TOOL_CALLS]' + name + '[ARGS]'", Dialect::Mistral, Reasoning::None),
        (r"'[THINK]' + thinking + '[/THINK]' … '[TOOL_CALLS]'", Dialect::Mistral, Reasoning::Mistral),
        (r"'<|channel>thought\n' … '<channel|>' … '<|tool_call>call:' + name + '{'", Dialect::Gemma4, Reasoning::Gemma4),
        (r#"'<function name="' ~ name ~ '">' … '<param name="' … '</think>'"#, Dialect::MiniCpm, Reasoning::Think),
        (r#"<tool_call>{name}\n<arg_key>… {"name": … arguments … '</think>'"#, Dialect::Glm, Reasoning::Think),
        // Apriel's mark is another one, though it speaks of this one.
        (r#"within <tool_call></tool_call> … <tool_calls>[{"name": … "arguments": …}]</tool_calls>"#, Dialect::Plain, Reasoning::None),
    ];
    for (template, dialect, reasoning) in rows {
        assert_eq!((Dialect::detect(template), Reasoning::detect(template)), (dialect, reasoning), "{template}");
    }
}

#[test]
fn names_lead_back_and_others_are_told_what_is_allowed() {
    for dialect in Dialect::ALL {
        assert_eq!(dialect.name().parse(), Ok(*dialect));
    }
    for reasoning in Reasoning::ALL {
        assert_eq!(reasoning.name().parse(), Ok(*reasoning));
    }
    let refused = "qwen".parse::<Dialect>().unwrap_err().to_string();
    assert_eq!(refused, "'qwen' is none of none, hermes, qwen3-coder, llama3, mistral, gemma4, minicpm, glm4");
}

#[test]
fn a_prompt_ends_in_reasoning_only_where_its_last_word_opens_it() {
    let rows = [
        (Reasoning::Think, "<|im_start|>assistant\n<think>\n", true),
        (Reasoning::Think, "<|im_start|>assistant\n<think>\n\n</think>\n\n", false),
        (Reasoning::Think, "what is <think>?<|im_end|>\n<|im_start|>assistant\n", false),
        (Reasoning::Gemma4, "<|turn>model\n<|channel>thought\n", true),
        (Reasoning::Gemma4, "<|turn>model\n<|channel>thought\n<channel|>", false),
        (Reasoning::None, "<think>\n", false),
    ];
    for (reasoning, prompt, ends) in rows {
        assert_eq!(ends_in_reasoning(reasoning, prompt), ends, "{prompt}");
    }
}
