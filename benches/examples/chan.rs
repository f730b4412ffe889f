use thalweg::{Context, Result, Tensor, jit, DType};
use std::time::Instant;
fn main() -> Result<()> {
    let cx = Context::new("cpu")?;
    for shape in [[8usize, 21, 128, 128], [8, 64, 56, 56], [1, 40, 56, 56], [1,192,16,16],[8,256,14,14],[8,512,7,7],[2,1000,32,32]] {
        let x = Tensor::randn(shape, DType::F32, &cx);
        let g = Tensor::randn([shape[1]], DType::F32, &cx);
        let c=shape[1];
        let fs: Vec<(&str, Box<dyn Fn(&Tensor)->Tensor>)> = vec![
            ("softmax1", Box::new(|x| x.softmax(1))),
            ("ln", { let g=g.clone(); Box::new(move |x| x.permute([0,2,3,1]).layer_norm([c], &g, &g, 1e-5).permute([0,3,1,2]).contiguous()) }),
            ("ln_last", { let g=g.clone(); Box::new(move |x| x.permute([0,2,3,1]).layer_norm([c], &g, &g, 1e-5).contiguous()) }),
            ("sum1", Box::new(|x| x.sum_axes([1]))),
        ];
        for (n, f) in fs {
            let j = jit(move |x: &Tensor| f(x));
            let mut best = f64::MAX;
            let s=Instant::now();
            while s.elapsed().as_secs_f64() < 0.3 { let t=Instant::now(); let y=j.call(&x); y.shape()?; cx.device().synchronize()?; best=best.min(t.elapsed().as_secs_f64()); }
            let e: usize = shape.iter().product();
            println!("{n:10} {shape:?} {:8.1} us {:6.3} ns/el", best*1e6, best*1e9/e as f64);
        }
    }
    Ok(())
}
