//! `#[tool]` on an `impl` block: leaves the block as it is and adds the list of its tools.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, ImplItem, ItemImpl, Meta, Signature};

use crate::expand;
use crate::problems::Problems;
use crate::signature::{Place, ToolModel, strip_params};

/// The block without what is only for `#[tool]`, and the block with the list of tools added.
pub(crate) fn expand(arguments: TokenStream, mut block: ItemImpl) -> (TokenStream, syn::Result<TokenStream>) {
    let mut problems = Problems::default();
    check_form(&arguments, &block, &mut problems);
    let mut names: Vec<String> = Vec::new();
    let mut pushes: Vec<TokenStream> = Vec::new();
    let mut marked = false;
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        let Some(at) = method.attrs.iter().position(is_tool) else { continue };
        marked = true;
        let mark = method.attrs.remove(at);
        let read = options(&mark)
            .and_then(|options| ToolModel::read(options, &method.attrs, &method.sig, Place::Method));
        strip_params(&mut method.sig);
        let Some(model) = problems.take(read) else { continue };
        let name = model.name.value();
        if names.contains(&name) {
            let message =
                format!("two tools of this block are named `{name}`: give one another with `name = \"…\"`");
            problems.note(&model.name, message);
        }
        names.push(name);
        pushes.push(push(&model, &method.attrs, &method.sig));
    }
    if !marked {
        let message = "no method of this block is a tool: mark some with `#[tool]`, or drop it here";
        problems.note(&block.self_ty, message);
    }
    let of_type = &block.self_ty;
    let expanded = quote! {
        #block

        impl ::dauntless::__private::ToolSet for #of_type {
            fn tools(
                self: &::std::sync::Arc<Self>,
            ) -> ::std::vec::Vec<::std::sync::Arc<dyn ::dauntless::__private::Tool>> {
                let mut __dauntless_tools: ::std::vec::Vec<::std::sync::Arc<dyn ::dauntless::__private::Tool>> =
                    ::std::vec::Vec::new();
                #(#pushes)*
                __dauntless_tools
            }
        }
    };
    (quote!(#block), problems.finish(expanded))
}

fn check_form(arguments: &TokenStream, block: &ItemImpl, problems: &mut Problems) {
    if !arguments.is_empty() {
        problems.note(arguments, "an `impl` block has no keys of its own: write them on its methods");
    }
    if let Some((_, of_trait, _)) = &block.trait_ {
        problems.note(of_trait, "the methods of a trait cannot be tools: use a plain `impl` block");
    }
    if !block.generics.params.is_empty() {
        let message = "a block of tools is not generic: implement it for a concrete type";
        problems.note(&block.generics, message);
    }
}

fn push(model: &ToolModel, attributes: &[Attribute], signature: &Signature) -> TokenStream {
    let conditions = expand::conditions(attributes);
    let method = &signature.ident;
    let arguments = expand::arguments_struct(model);
    let call = expand::call(model, signature, &quote!(Self::#method));
    let tool = expand::build(
        model,
        signature,
        &quote! {
            move |__dauntless_ctx, __dauntless_args| {
                let __dauntless_state = ::std::sync::Arc::clone(&__dauntless_state);
                async move { #call }
            }
        },
    );
    quote! {
        #(#conditions)*
        {
            #arguments
            let __dauntless_state = ::std::sync::Arc::clone(self);
            __dauntless_tools.push(::std::sync::Arc::new(#tool));
        }
    }
}

fn is_tool(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "tool")
}

fn options(mark: &Attribute) -> syn::Result<TokenStream> {
    match &mark.meta {
        Meta::Path(_) => Ok(TokenStream::new()),
        Meta::List(list) => Ok(list.tokens.clone()),
        Meta::NameValue(pair) => Err(syn::Error::new_spanned(pair, "write `#[tool(key = value, …)]`")),
    }
}
