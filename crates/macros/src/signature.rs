//! Reads one function into what its tool needs to know, and says why a function cannot be a tool.

use proc_macro2::{Spacing, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, FnArg, Ident, LitStr, Pat, PatType, ReturnType, Signature, Type};

use crate::docs;
use crate::options::Options;
use crate::problems::Problems;

/// One tool, checked.
pub(crate) struct ToolModel {
    /// The name the model sees.
    pub(crate) name: LitStr,
    /// The description the model sees.
    pub(crate) description: String,
    /// Builder calls for the rest.
    pub(crate) setters: Vec<TokenStream>,
    /// The parameters, in order.
    pub(crate) params: Vec<Param>,
}

/// One parameter of the function.
pub(crate) enum Param {
    /// What the runtime gives, as `&ToolCtx` or `ToolCtx`.
    Ctx { name: Ident, by_reference: bool },
    /// What the model fills in, with the attributes its field carries.
    Argument { name: Ident, of_type: Box<Type>, attributes: Vec<Attribute> },
}

/// Where the function stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Free,
    Method,
}

impl ToolModel {
    /// Reads a function with its own attributes and those of `#[tool(…)]`.
    pub(crate) fn read(
        options: TokenStream,
        attributes: &[Attribute],
        signature: &Signature,
        place: Place,
    ) -> syn::Result<Self> {
        let mut problems = Problems::default();
        let options = Options::parse(options, &mut problems);
        check_form(signature, &mut problems);
        let params = params(signature, place, &mut problems);
        check_output(&signature.output, &mut problems);
        let function = &signature.ident;
        let name =
            options.name.unwrap_or_else(|| LitStr::new(&function.unraw().to_string(), function.span()));
        if let Err(message) = check_name(&name.value()) {
            problems.note(&name, message);
        }
        let description = options.description.map_or_else(|| docs::text(attributes), |text| text.value());
        if description.is_empty() {
            let message = format!(
                "tool `{function}` has no description, and the model decides by it: \
                 write a doc comment above the function or `description = \"…\"`"
            );
            problems.note(function, message);
        }
        problems.finish(Self { name, description, setters: options.setters, params })
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=64).contains(&name.len()) && name.chars().all(legal) {
        return Ok(());
    }
    Err(format!(
        "tool name `{name}` is not allowed: give one with `name = \"…\"`, 1 to 64 of a-z, A-Z, 0-9, `_` and `-`"
    ))
}

fn check_form(signature: &Signature, problems: &mut Problems) {
    if !signature.generics.params.is_empty() || signature.generics.where_clause.is_some() {
        let generics = &signature.generics;
        let clause = &signature.generics.where_clause;
        let message = "a tool is not generic, its schema needs concrete types: \
                       name them, or take what varies from the state of an `impl` block";
        problems.note(quote!(#generics #clause), message);
    }
    for keyword in [
        signature.constness.map(ToTokens::into_token_stream),
        signature.unsafety.map(ToTokens::into_token_stream),
        signature.abi.as_ref().map(ToTokens::to_token_stream),
    ]
    .into_iter()
    .flatten()
    {
        let message = format!("a tool is a plain `fn` or `async fn`: drop `{keyword}`");
        problems.note(keyword, message);
    }
}

fn params(signature: &Signature, place: Place, problems: &mut Problems) -> Vec<Param> {
    let mut found: Vec<Param> = Vec::new();
    let mut inputs = signature.inputs.iter().peekable();
    match (inputs.peek(), place) {
        (Some(FnArg::Receiver(receiver)), Place::Free) => {
            problems.note(
                receiver,
                "a tool with `self` needs its state: put `#[tool]` on the `impl` block as well",
            );
            inputs.next();
        }
        (Some(FnArg::Receiver(receiver)), Place::Method) => {
            if receiver.reference.is_none() || receiver.mutability.is_some() {
                let message = "calls share the state and may run at the same time: \
                               take `&self`, with a lock inside for what changes";
                problems.note(receiver, message);
            }
            inputs.next();
        }
        (_, Place::Method) => problems.note(
            &signature.ident,
            "a tool of an `impl` block takes `&self`; without state, make it a function of its own",
        ),
        (_, Place::Free) => {}
    }
    for input in inputs {
        let FnArg::Typed(input) = input else { continue };
        let Some(param) = problems.take(param(input)) else { continue };
        if let Some(problem) = found.iter().find_map(|earlier| clash(earlier, &param)) {
            problems.note(input, problem);
        }
        found.push(param);
    }
    found
}

fn clash(earlier: &Param, later: &Param) -> Option<String> {
    match (earlier, later) {
        (Param::Ctx { .. }, Param::Ctx { .. }) => {
            Some("a tool has one context: drop the second `ToolCtx`".to_owned())
        }
        (a, b) if a.name() == b.name() => {
            Some(format!("two parameters are named `{}`: the model could fill in only one", a.name()))
        }
        _ => None,
    }
}

fn param(input: &PatType) -> syn::Result<Param> {
    let Pat::Ident(pattern) = &*input.pat else {
        return Err(syn::Error::new_spanned(
            &input.pat,
            "give the parameter a name: the model fills it in by name",
        ));
    };
    let name = pattern.ident.clone();
    let (by_reference, inner) = match &*input.ty {
        Type::Reference(reference) => (true, &*reference.elem),
        other => (false, other),
    };
    if is_ctx(inner) {
        if let Type::Reference(reference) = &*input.ty
            && reference.mutability.is_some()
        {
            return Err(syn::Error::new_spanned(&input.ty, "the context is read-only: take `&ToolCtx`"));
        }
        if let Some(attribute) = input.attrs.iter().find(|attribute| is_for_field(attribute)) {
            let message = "the model never sees the context: drop what is written for it here";
            return Err(syn::Error::new_spanned(attribute, message));
        }
        return Ok(Param::Ctx { name, by_reference });
    }
    if by_reference {
        let message = format!("a tool owns its arguments: take `{}`", owned(inner));
        return Err(syn::Error::new_spanned(&input.ty, message));
    }
    if let Type::ImplTrait(_) = inner {
        let message =
            "the schema needs a concrete type: name one that implements `Deserialize` and `JsonSchema`";
        return Err(syn::Error::new_spanned(&input.ty, message));
    }
    let attributes = input.attrs.iter().filter(|attribute| is_for_field(attribute)).cloned().collect();
    Ok(Param::Argument { name, of_type: input.ty.clone(), attributes })
}

fn is_ctx(of_type: &Type) -> bool {
    matches!(of_type, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "ToolCtx"))
}

fn owned(borrowed: &Type) -> String {
    match borrowed {
        Type::Path(path) if path.path.is_ident("str") => "String".to_owned(),
        Type::Slice(slice) => {
            let element = &slice.elem;
            format!("Vec<{}>", quote!(#element))
        }
        other => quote!(#other).to_string(),
    }
}

/// A future outlives the borrow of what it was made from, so the answer owns its data.
fn check_output(output: &ReturnType, problems: &mut Problems) {
    let ReturnType::Type(_, of_type) = output else { return };
    if borrows(of_type.to_token_stream()) {
        problems.note(of_type, "a tool's answer owns its data: return `String` or another owned type");
    }
}

/// Whether a `&` other than `&'static` stands anywhere in a type.
fn borrows(of_type: TokenStream) -> bool {
    let mut tokens = of_type.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) if borrows(group.stream()) => return true,
            TokenTree::Punct(punct) if punct.as_char() == '&' => {
                let tick = tokens.next_if(
                    |next| matches!(next, TokenTree::Punct(p) if p.as_char() == '\'' && p.spacing() == Spacing::Joint),
                );
                if tick.is_none()
                    || !matches!(tokens.next(), Some(TokenTree::Ident(life)) if life == "static")
                {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

impl Param {
    /// The name the function gives it.
    pub(crate) fn name(&self) -> &Ident {
        match self {
            Self::Ctx { name, .. } | Self::Argument { name, .. } => name,
        }
    }
}

/// Whether an attribute of a parameter belongs to the field that stands for it.
fn is_for_field(attribute: &Attribute) -> bool {
    ["doc", "serde", "schemars"].iter().any(|name| attribute.path().is_ident(name))
}

/// Takes from the parameters what only their fields may carry.
pub(crate) fn strip_params(signature: &mut Signature) {
    for input in &mut signature.inputs {
        if let FnArg::Typed(input) = input {
            input.attrs.retain(|attribute| !is_for_field(attribute));
        }
    }
}

/// The span that a mismatch of the answer's type is shown under.
pub(crate) fn output_span(signature: &Signature) -> proc_macro2::Span {
    match &signature.output {
        ReturnType::Default => signature.ident.span(),
        ReturnType::Type(_, of_type) => of_type.span(),
    }
}
