//! `#[derive(Module)]`.

use proc_macro::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Field, Fields, Index, Member, parse_macro_input};

/// Implements `Module` and `Tree` for a struct whose fields are modules, parameters, plain values, or collections of these.
///
/// Other fields are marked. They are cloned, and nothing in them is trained or saved.
/// - `#[module(setting)]`: a value that is `Hash`, and that what the module computes may depend on, such as an `enum` of
///   variants. Graphs that were compiled for one value serve equal ones only.
/// - `#[module(skip)]`: a value that nothing the module computes may depend on, such as a name: graphs that were compiled for one
///   value serve all.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// How a field is treated.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Part,
    Setting,
    Skipped,
}

fn kind(field: &Field) -> syn::Result<Kind> {
    let mut kind = Kind::Part;
    for attribute in field
        .attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("module"))
    {
        attribute.parse_nested_meta(|meta| {
            let found = if meta.path.is_ident("skip") {
                Kind::Skipped
            } else if meta.path.is_ident("setting") {
                Kind::Setting
            } else {
                return Err(meta.error("there are only `#[module(setting)]` and `#[module(skip)]`"));
            };
            if kind != Kind::Part {
                return Err(meta.error("a field is a setting or skipped, and marked once"));
            }
            kind = found;
            Ok(())
        })?;
    }
    Ok(kind)
}

fn expand(input: &DeriveInput) -> syn::Result<proc_macro2::TokenStream> {
    let Data::Struct(data) = &input.data else {
        let text = "Module is derived for structs; put the variants into a struct with an `Option` each";
        return Err(syn::Error::new_spanned(&input.ident, text));
    };
    let fields: Vec<(&Field, Member, String)> = match &data.fields {
        Fields::Named(fields) => (fields.named.iter())
            .filter_map(|field| {
                field
                    .ident
                    .clone()
                    .map(|name| (field, Member::Named(name.clone()), name.to_string()))
            })
            .collect(),
        Fields::Unnamed(fields) => (fields.unnamed.iter().enumerate())
            .map(|(at, field)| (field, Member::Unnamed(Index::from(at)), at.to_string()))
            .collect(),
        Fields::Unit => Vec::new(),
    };
    let (mut visits, mut changes) = (Vec::new(), Vec::new());
    for (field, member, name) in &fields {
        let name = name.trim_start_matches("r#");
        match kind(field)? {
            Kind::Part => {
                visits.push(quote!(visitor.child(#name, &self.#member);));
                changes.push(quote!(visitor.child(#name, &mut self.#member);));
            }
            Kind::Setting => visits.push(quote! {
                visitor.leaf(::thalweg_nn::Part::Setting(::thalweg_nn::module::hash(&self.#member)));
            }),
            Kind::Skipped => {}
        }
    }
    let ident = &input.ident;
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(syn::parse_quote!(::thalweg_nn::Module));
    }
    let (in_impl, in_type, bounds) = generics.split_for_impl();
    let lifetime = format_ident!("a");
    let lifetime = syn::Lifetime::new(&format!("'{lifetime}"), ident.span());
    Ok(quote! {
        impl #in_impl ::thalweg_nn::Module for #ident #in_type #bounds {
            fn visit<#lifetime>(&#lifetime self, visitor: &mut ::thalweg_nn::Visitor<'_, #lifetime>) {
                let _ = &visitor;
                #(#visits)*
            }

            fn visit_mut(&mut self, visitor: &mut ::thalweg_nn::VisitorMut<'_>) {
                let _ = &visitor;
                #(#changes)*
            }
        }

        impl #in_impl ::thalweg_nn::Tree for #ident #in_type #bounds {
            fn visit<#lifetime>(&#lifetime self, each: &mut dyn FnMut(&#lifetime ::thalweg_nn::Tensor)) {
                ::thalweg_nn::module::visit_tensors(self, each);
            }

            fn map(&self, each: &mut dyn FnMut(&::thalweg_nn::Tensor) -> ::thalweg_nn::Tensor) -> Self {
                ::thalweg_nn::module::map_tensors(self, each)
            }

            fn structure(&self, into: &mut ::std::vec::Vec<u64>) {
                ::thalweg_nn::module::structure(self, into);
            }
        }
    })
}
