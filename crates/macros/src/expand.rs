//! Writes the code of a tool. It only calls what a person could call, `tool_fn_with_ctx` and its
//! builder methods; through `dauntless::__private`, so that the facade may arrange its public
//! names as it likes. Names of its own begin with `__dauntless`: a plain `ctx` would match a tool
//! of that name instead of binding.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Attribute, Item, ItemFn, Signature};

use crate::block;
use crate::signature::{Param, Place, ToolModel, output_span, strip_params};

/// Expands `#[tool]`. Beside an error the item comes out without it, so that editors still see it.
pub(crate) fn tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let (plain, expanded) = try_tool(arguments, item);
    expanded.unwrap_or_else(|error| {
        let error = error.to_compile_error();
        quote!(#error #plain)
    })
}

/// The item without `#[tool]`, and its expansion.
pub(crate) fn try_tool(arguments: TokenStream, item: TokenStream) -> (TokenStream, syn::Result<TokenStream>) {
    match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Fn(mut function)) => {
            let model = ToolModel::read(arguments, &function.attrs, &function.sig, Place::Free);
            strip_params(&mut function.sig);
            let expanded = model.map(|model| expand_function(&model, &function));
            (quote!(#function), expanded)
        }
        Ok(Item::Impl(block)) => block::expand(arguments, block),
        Ok(_) => {
            let message = "`#[tool]` stands on a function or on an `impl` block with such functions";
            (item.clone(), Err(syn::Error::new_spanned(item, message)))
        }
        Err(error) => (item, Err(error)),
    }
}

fn expand_function(model: &ToolModel, function: &ItemFn) -> TokenStream {
    let name = &function.sig.ident;
    let vis = &function.vis;
    let conditions = conditions(&function.attrs);
    let docs: Vec<&Attribute> = function.attrs.iter().filter(|a| a.path().is_ident("doc")).collect();
    let description = &model.description;
    let docs = if docs.is_empty() { quote!(#[doc = #description]) } else { quote!(#(#docs)*) };
    let mut inner = function.clone();
    inner.vis = syn::Visibility::Inherited;
    inner.attrs.retain(|a| !a.path().is_ident("doc") && !a.path().is_ident("cfg"));
    let arguments = arguments_struct(model);
    let call = call(model, &function.sig, &quote!(#name));
    let tool = build(model, &function.sig, &quote!(|__dauntless_ctx, __dauntless_args| async move { #call }));
    let shadows = model.params.iter().map(Param::name).filter(|param| *param != name);
    quote! {
        #docs
        #(#conditions)*
        #[allow(non_camel_case_types, reason = "a tool is named as its function")]
        #[derive(Clone, Copy, Debug)]
        #vis struct #name;

        #(#conditions)*
        const _: () = {
            #arguments

            static __DAUNTLESS_TOOL: ::std::sync::LazyLock<::dauntless::__private::FnTool> =
                ::std::sync::LazyLock::new(|| {
                    // A parameter named as another tool would match that tool's unit struct
                    // instead of binding; a function in between hides the struct.
                    #(
                        #[allow(dead_code, non_snake_case, reason = "it only hides a tool of this name")]
                        fn #shadows() {}
                    )*
                    #inner
                    #tool
                });

            impl ::dauntless::__private::Tool for #name {
                fn spec(&self) -> &::std::sync::Arc<::dauntless::__private::ToolSpec> {
                    ::dauntless::__private::Tool::spec(&*__DAUNTLESS_TOOL)
                }

                fn call(
                    &self,
                    __dauntless_ctx: ::dauntless::__private::ToolCtx,
                    __dauntless_json: ::dauntless::__private::Json,
                ) -> ::dauntless::__private::Answering<'_> {
                    ::dauntless::__private::Tool::call(&*__DAUNTLESS_TOOL, __dauntless_ctx, __dauntless_json)
                }

                fn verify(
                    &self,
                    __dauntless_ctx: ::dauntless::__private::ToolCtx,
                    __dauntless_json: ::dauntless::__private::Json,
                ) -> ::dauntless::__private::Verifying<'_> {
                    ::dauntless::__private::Tool::verify(&*__DAUNTLESS_TOOL, __dauntless_ctx, __dauntless_json)
                }
            }
        };
    }
}

/// The hidden type that the arguments are read into, and that the schema comes from.
pub(crate) fn arguments_struct(model: &ToolModel) -> TokenStream {
    let fields = model.params.iter().filter_map(|param| match param {
        Param::Ctx { .. } => None,
        Param::Argument { name, of_type, attributes } => Some(quote!(#(#attributes)* #name: #of_type)),
    });
    quote! {
        #[derive(::dauntless::__private::serde::Deserialize, ::dauntless::__private::schemars::JsonSchema)]
        #[serde(crate = "::dauntless::__private::serde", deny_unknown_fields)]
        #[schemars(crate = "::dauntless::__private::schemars")]
        struct __DauntlessArgs {
            #(#fields,)*
        }
    }
}

/// One call of the function and what becomes of its answer, as an expression of an async block.
pub(crate) fn call(model: &ToolModel, signature: &Signature, function: &TokenStream) -> TokenStream {
    let state = signature.receiver().map(|_| quote!(&__dauntless_state,));
    let params = model.params.iter().map(|param| match param {
        Param::Ctx { by_reference: true, .. } => quote!(&__dauntless_ctx),
        Param::Ctx { by_reference: false, .. } => quote!(__dauntless_ctx),
        Param::Argument { name, .. } => quote!(__dauntless_args.#name),
    });
    let dot_await = signature.asyncness.map(|_| quote!(.await));
    // Shown at the answer's type, yet known as ours: lints of the user's code stay out of it.
    let span = Span::call_site().located_at(output_span(signature));
    quote_spanned! {span=>
        ::dauntless::__private::Returned(#function(#state #(#params),*) #dot_await).into_answer()
    }
}

/// The expression that makes the tool from a closure of the context and the arguments.
pub(crate) fn build(model: &ToolModel, signature: &Signature, closure: &TokenStream) -> TokenStream {
    let ToolModel { name, description, setters, .. } = model;
    let span = Span::call_site().located_at(signature.ident.span());
    quote_spanned! {span=> {
        #[allow(unused_imports, reason = "only an answer without a `Result` needs it")]
        use ::dauntless::__private::IntoAnswer as _;
        ::dauntless::__private::tool_fn_with_ctx::<__DauntlessArgs, _, _, _>(#name, #description, #closure)
            #(#setters)*
    }}
}

/// The `#[cfg]`s of an item, for everything that is generated beside it.
pub(crate) fn conditions(attributes: &[Attribute]) -> Vec<&Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect()
}
