//! The form that an answer is to have: tools that it may call, or JSON.

use crate::fields::{Fields, wrong};
use crate::refusal::Refusal;
use actors::{Choice, Form, Grammar, Params, Tool};
use serde_json::{Map, Value, json};

/// Tools that a request may offer.
const TOOLS_MAX: usize = 512;
const NAME_CHARS_MAX: usize = 128;
const CHOICES: &str = r#""none", "auto", "required" or {"type":"function","function":{"name":…}}"#;

/// A chat's form. Tools that may be called go to the template, too, which shows them to the model.
pub(super) fn read(fields: &mut Fields, kwargs: &mut Map<String, Value>) -> Result<Form, Refusal> {
    if fields.list("functions")?.is_some_and(|list| !list.is_empty()) || fields.take("function_call").is_some_and(|call| call != "none" && call != "auto") {
        return Err(Refusal::unserved("functions", "send tools").at("functions"));
    }
    let grammar = format(fields)?;
    let tools = tools(fields, ".function.name", one)?;
    let choice = choice(fields, &tools)?;
    let parallel = fields.flag("parallel_tool_calls")?.unwrap_or(true);
    offered(Form { tools, choice, parallel, grammar }, "response_format", kwargs)
}

/// The list of tools, each read by `one`; `name` is where a tool's name lies in it.
pub(crate) fn tools(fields: &mut Fields, name: &str, one: impl Fn(String, Value) -> Result<Tool, Refusal>) -> Result<Vec<Tool>, Refusal> {
    let list = fields.list("tools")?.unwrap_or_default();
    if list.len() > TOOLS_MAX {
        return Err(Refusal::field("tools", format!("must have at most {TOOLS_MAX} tools, not {}", list.len())));
    }
    let tools = list.into_iter().enumerate().map(|(i, tool)| one(format!("tools[{i}]"), tool)).collect::<Result<Vec<Tool>, Refusal>>()?;
    if let Some((i, tool)) = tools.iter().enumerate().find(|(i, tool)| tools[..*i].iter().any(|other| other.name == tool.name)) {
        return Err(Refusal::field(format!("tools[{i}]{name}"), format!("must be another name than those before it: {:?} is there already", tool.name)));
    }
    Ok(tools)
}

/// What there is to this form: without tools that may be called it is text or JSON, and the template is shown those only. `format` is
/// the field that the grammar came from.
pub(crate) fn offered(form: Form, format: &str, kwargs: &mut Map<String, Value>) -> Result<Form, Refusal> {
    if form.tools.is_empty() || form.choice == Choice::None {
        return Ok(Form { grammar: form.grammar, ..Form::default() });
    }
    if form.grammar.is_some() {
        return Err(Refusal::field(format, "must ask for text or be absent beside tools, unless tool_choice says that none may be called"));
    }
    kwargs.entry("tools").or_insert_with(|| form.tools.iter().map(shown).collect());
    Ok(form)
}

/// What is made to a form has an end.
pub(crate) fn ends(params: &Params, form: &Form, stop: &str) -> Result<(), Refusal> {
    if params.ignore_eos && (form.grammar.is_some() || !form.tools.is_empty()) {
        return Err(Refusal::field("ignore_eos", "must be false or absent beside tools and a form of the answer: they have an end"));
    }
    let must = form.grammar.is_some() || matches!(form.choice, Choice::Required | Choice::Named(_));
    if must && !params.stop.is_empty() {
        return Err(Refusal::field(stop, "must be absent beside a form of the answer and a call that must be made: it would cut them short"));
    }
    Ok(())
}

/// A tool as templates expect it: OpenAI's shape.
fn shown(tool: &Tool) -> Value {
    let mut function = Map::from_iter([("name".into(), tool.name.clone().into())]);
    function.extend(tool.description.clone().map(|text| ("description".into(), text.into())));
    function.insert("parameters".into(), tool.parameters.clone());
    json!({"type": "function", "function": function})
}

fn one(at: String, tool: Value) -> Result<Tool, Refusal> {
    let mut tool = Fields::new(at, tool)?;
    let kind = tool.path("type");
    if tool.text("type")?.is_some_and(|kind| kind != "function") {
        return Err(Refusal::field(kind, r#"must be "function": this server knows no other tools"#));
    }
    let at = tool.path("function");
    let function = tool.take("function").ok_or_else(|| Refusal::field(&at, "must be a JSON object, not null or absent"))?;
    let mut function = Fields::new(at, function)?;
    let name = name(&mut function)?;
    let (description, strict) = (function.text("description")?, function.flag("strict")?.unwrap_or(false));
    let parameters = parameters(function.object("parameters")?);
    Ok(Tool { name, description, parameters, strict })
}

pub(crate) fn name(function: &mut Fields) -> Result<String, Refusal> {
    let at = function.path("name");
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    match function.text("name")? {
        Some(name) if !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX && name.chars().all(allowed) => Ok(name),
        _ => Err(Refusal::field(at, format!("must be 1 to {NAME_CHARS_MAX} letters, digits, or any of _ - . / :"))),
    }
}

fn choice(fields: &mut Fields, tools: &[Tool]) -> Result<Choice, Refusal> {
    let choice = match fields.take("tool_choice") {
        None => return Ok(Choice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "none" => return Ok(Choice::None),
            "auto" => return Ok(Choice::Auto),
            "required" => Choice::Required,
            _ => return Err(Refusal::field("tool_choice", format!("must be {CHOICES}, not another string"))),
        },
        Some(Value::Object(choice)) => {
            let mut choice = Fields::new("tool_choice", Value::Object(choice))?;
            if choice.text("type")?.as_deref() != Some("function") {
                return Err(Refusal::field("tool_choice.type", r#"must be "function""#));
            }
            let function = choice.take("function").ok_or_else(|| Refusal::field("tool_choice.function", "must be a JSON object, not null or absent"))?;
            Choice::Named(name(&mut Fields::new("tool_choice.function", function)?)?)
        }
        Some(other) => return Err(wrong("tool_choice", CHOICES, &other)),
    };
    possible(choice, tools, "tool_choice.function.name")
}

/// The choice, unless these tools leave it nothing to call; `name` is the field that names one.
pub(crate) fn possible(choice: Choice, tools: &[Tool], name: &str) -> Result<Choice, Refusal> {
    match &choice {
        Choice::Named(of) if !tools.iter().any(|tool| tool.name == *of) => Err(Refusal::field(name, "must be the name of one of tools")),
        Choice::Required if tools.is_empty() => Err(Refusal::field("tool_choice", "must not ask for a call without tools")),
        _ => Ok(choice),
    }
}

/// A schema of arguments, or of any object where a tool has none.
pub(crate) fn parameters(schema: Option<Map<String, Value>>) -> Value {
    schema.map_or_else(|| json!({"type": "object", "properties": {}}), Value::Object)
}

/// What all of the answer is to be. None: text. Whether the schema can be followed is for the model's side to say.
pub(super) fn format(fields: &mut Fields) -> Result<Option<Grammar>, Refusal> {
    let Some(format) = fields.take("response_format") else { return Ok(None) };
    let mut format = Fields::new("response_format", format)?;
    match format.text("type")?.as_deref() {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(Grammar::Schema(json!({"type": "object"})))),
        Some("json_schema") => {
            let at = format.path("json_schema");
            let schema = format.take("json_schema").ok_or_else(|| Refusal::field(&at, "must be a JSON object, not null or absent"))?;
            let mut schema = Fields::new(at, schema)?;
            let at = schema.path("schema");
            schema.text("name")?;
            schema.text("description")?;
            schema.flag("strict")?;
            let schema = schema.object("schema")?.ok_or_else(|| Refusal::field(at, "must be a JSON Schema, an object, not null or absent"))?;
            Ok(Some(Grammar::Schema(Value::Object(schema))))
        }
        _ => Err(Refusal::field("response_format.type", r#"must be "text", "json_object" or "json_schema""#)),
    }
}
