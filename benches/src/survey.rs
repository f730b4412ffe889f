//! Times of ops in eager mode, a line each: `benches/peers/survey.py` prints them beside PyTorch's. What the pages of `cargo xtask perf`
//! do not measure is here, so that no op is slow unseen.

mod decoder;

use std::io::Write;
use std::time::Instant;
use thalweg::ops::{
    AttentionOptions, ClassLossOptions, ConvOptions, ConvTransposeOptions, FoldOptions, InterpolateOptions,
    Interpolation, Key, NamedOp, PadMode, PoolOptions, Reduction,
};
use thalweg::{Context, DType, Result, Tensor, grad};

/// Seconds for a case.
const SECONDS: f64 = 0.2;

struct Survey {
    cx: Context,
    filter: String,
}

impl Survey {
    fn random(&self, shape: &[usize]) -> Tensor {
        Tensor::rand(shape, DType::F32, &self.cx)
    }

    /// Prints the milliseconds of the lower quartile of calls, each with the end of its work.
    fn time(&self, name: &str, op: impl Fn() -> Tensor) -> Result<()> {
        if !name.contains(&self.filter) {
            return Ok(());
        }
        op().ok()?;
        let run = || -> Result<f64> {
            let start = Instant::now();
            let result = op();
            self.cx.device().synchronize()?;
            drop(result);
            Ok(start.elapsed().as_secs_f64())
        };
        for _ in 0..3 {
            run()?;
        }
        let calls = ((SECONDS / run()?) as usize).clamp(5, 2000);
        let mut times = (0..calls).map(|_| run()).collect::<Result<Vec<_>>>()?;
        times.sort_by(f64::total_cmp);
        // A closed pipe is the reader's wish.
        let _ = writeln!(std::io::stdout(), "{name} {:.4}", times[calls / 4] * 1e3);
        Ok(())
    }

    /// The gradient of the sum.
    fn gradient(&self, name: &str, x: &Tensor, op: impl Fn(&Tensor) -> Tensor) -> Result<()> {
        let gradient = grad(|x: &Tensor| op(x).sum());
        self.time(name, || gradient.call(x))
    }

    fn maps(&self) -> Result<()> {
        let (x, y) = (&self.random(&[1024, 1024]), &self.random(&[1024, 1024]));
        self.time("add", || x + y)?;
        self.time("add_number", || x + 1.0)?;
        self.time("add_row", || x + y.narrow(0, 0, 1))?;
        self.time("div", || x / y)?;
        self.time("where", || x.gt(y).where_cond(x, y))?;
        self.time("masked_fill", || x.masked_fill(&x.gt(0.5), 0.0))?;
        self.time("clamp", || x.clamp(0.2, 0.8))?;
        self.time("remainder", || x.remainder(y))?;
        self.time("pow", || x.pow(y))?;
        self.time("atan2", || x.atan2(y))?;
        self.time("hypot", || x.hypot(y))?;
        self.time("rsqrt", || x.rsqrt())?;
        self.time("erf", || x.erf())?;
        self.time("cos", || x.cos())?;
        self.time("round", || x.round())?;
        self.time("isnan", || x.isnan())?;
        for (name, dtype) in [
            ("cast_f64", DType::F64),
            ("cast_i64", DType::I64),
            ("cast_i32", DType::I32),
            ("cast_u8", DType::U8),
            ("cast_bf16", DType::BF16),
            ("cast_bool", DType::Bool),
        ] {
            self.time(name, || x.cast(dtype))?;
        }
        Ok(())
    }

    fn reductions(&self) -> Result<()> {
        let x = &self.random(&[1024, 1024]);
        self.time("sum", || x.sum())?;
        self.time("mean_0", || x.mean_axes(0))?;
        self.time("mean_1", || x.mean_axes(1))?;
        self.time("var_0", || x.var_axes(0, 1))?;
        self.time("var_1", || x.var_axes(1, 1))?;
        self.time("std", || x.std(1))?;
        self.time("norm", || x.norm(2.0))?;
        self.time("prod_1", || x.prod_axes(1))?;
        self.time("max_0", || x.max_axes(0))?;
        self.time("argmax_0", || x.argmax_axes(0))?;
        self.time("argmax_1", || x.argmax_axes(1))?;
        self.time("any", || x.gt(2.0).any())?;
        self.time("logsumexp_1", || x.logsumexp_axes(1))?;
        self.time("median_1", || x.median(1))?;
        self.time("cumsum_1", || x.cumsum(1))?;
        self.time("cumprod_1", || x.cumprod(1))?;
        self.time("cummax_1", || x.cummax(1))
    }

    fn norms(&self) -> Result<()> {
        let (x, images, c) = (
            &self.random(&[1024, 1024]),
            &self.random(&[8, 64, 56, 56]),
            &self.random(&[64]),
        );
        self.time("softmax_0", || x.softmax(0))?;
        self.time("softmax_1", || x.softmax(1))?;
        self.time("log_softmax_1", || x.log_softmax(1))?;
        self.time("layer_norm", || x.layer_norm([1024], None, None, 1e-5))?;
        self.time("rms_norm", || x.rms_norm([1024], None, 1e-5))?;
        self.time("batch_norm", || images.batch_norm(c, c, c, c, 1e-5))?;
        self.time("batch_norm_train", || images.batch_norm_train(c, c, 1e-5).output)?;
        self.time("group_norm", || images.group_norm(8, c, c, 1e-5))?;
        self.time("instance_norm", || images.instance_norm(c, c, 1e-5))?;
        self.time("dropout", || x.dropout(0.5, &Key::new(7, &self.cx)))
    }

    fn moves(&self) -> Result<()> {
        let (x, y, images) = (
            &self.random(&[1024, 1024]),
            &self.random(&[1024, 1024]),
            &self.random(&[8, 64, 56, 56]),
        );
        let around = [(0, 0), (0, 0), (1, 1), (1, 1)];
        self.time("transpose", || x.t().contiguous())?;
        self.time("channels_last", || images.permute([0, 2, 3, 1]).contiguous())?;
        self.time("channels_first", || {
            images.reshape([8, 56, 56, 64]).permute([0, 3, 1, 2]).contiguous()
        })?;
        self.time("permute_3", || {
            x.reshape([64, 128, 128]).permute([2, 0, 1]).contiguous()
        })?;
        self.time("flip_1", || x.flip(1).contiguous())?;
        self.time("roll", || x.roll(100, 1))?;
        self.time("tile", || x.tile(&[2, 2]))?;
        self.time("concat_0", || Tensor::concat(&[x, y], 0))?;
        self.time("concat_1", || Tensor::concat(&[x, y], 1))?;
        self.time("stack_2", || Tensor::stack(&[x, y], 2))?;
        self.time("pad", || images.pad(&around, PadMode::Constant(0.0.into())))?;
        self.time("pad_reflect", || images.pad(&around, PadMode::Reflect))?;
        self.time("tril", || x.tril(0))?;
        self.time("repeat_interleave", || x.repeat_interleave(2, 1))
    }

    fn indices(&self) -> Result<()> {
        let (x, table, flat) = (
            &self.random(&[1024, 1024]),
            &self.random(&[4096, 1024]),
            &self.random(&[1 << 20]),
        );
        let index = &Tensor::randint(0, 1024, [1024, 1024], &self.cx);
        let rows = &Tensor::randint(0, 4096, [4096], &self.cx);
        let wide = &rows.reshape([4096, 1]).expand([4096, 1024]);
        let places = &Tensor::randint(0, 1 << 20, [1 << 20], &self.cx);
        self.time("gather_0", || x.gather(0, index))?;
        self.time("gather_1", || x.gather(1, index))?;
        self.time("index_select_0", || table.index_select(0, rows))?;
        self.time("take", || flat.take(places))?;
        self.time("scatter_add_0", || table.scatter_add(0, wide, table))?;
        self.time("index_add", || table.index_add(0, rows, table))?;
        self.time("embedding", || table.embedding(rows, None))?;
        self.time("one_hot", || rows.one_hot(4096))?;
        self.time("nonzero", || x.gt(0.5).nonzero())?;
        self.time("masked_select", || x.masked_select(&x.gt(0.5)))?;
        self.time("unique", || places.unique())?;
        self.time("bincount", || places.bincount(0))?;
        self.time("searchsorted", || flat.sort(0, false).searchsorted(flat, false))?;
        self.time("sort_0", || x.sort(0, false))?;
        self.time("sort_1", || x.sort(1, false))?;
        self.time("sort_flat", || flat.sort(0, false))?;
        self.time("sort_i64", || places.sort(0, false))?;
        self.time("argsort_1", || x.argsort(1, false))?;
        self.time("topk_5", || x.topk(5, 1, true).0)?;
        self.time("rand", || self.random(&[1024, 1024]))?;
        self.time("randn", || Tensor::randn([1024, 1024], DType::F32, &self.cx))?;
        self.time("randperm", || Tensor::randperm(1 << 20, &self.cx))
    }

    fn images(&self) -> Result<()> {
        let (x, w) = (&self.random(&[8, 64, 56, 56]), &self.random(&[64, 64, 3, 3]));
        let (eighth, deep) = (w.narrow(1, 0, 8).contiguous(), self.random(&[32, 64, 3, 3, 3]));
        let twice = InterpolateOptions::factor(2.0);
        let same = ConvOptions::default().padding(1);
        self.time("interpolate_nearest", || x.interpolate(twice))?;
        self.time("interpolate_linear", || {
            x.interpolate(twice.mode(Interpolation::Linear))
        })?;
        self.time("conv", || x.conv2d(w, None, same))?;
        self.time("conv_dilated", || x.conv2d(w, None, same.padding(2).dilation(2)))?;
        self.time("conv_groups", || x.conv2d(&eighth, None, same.groups(8)))?;
        self.time("conv_strided", || x.conv2d(w, None, same.stride(2)))?;
        self.time("conv_transpose", || {
            x.conv_transpose2d(w, None, ConvTransposeOptions::default().stride(2).padding(1))
        })?;
        self.time("conv_1d", || {
            let signals = x.reshape([8, 64, 3136]);
            signals.conv1d(&w.reshape([64, 64, 9]), None, ConvOptions::default().padding(4))
        })?;
        self.time("conv_3d", || {
            x.reshape([2, 64, 4, 56, 56]).conv3d(&deep, None, same)
        })?;
        self.time("max_pool", || x.max_pool2d(PoolOptions::new(2)))?;
        self.time("avg_pool", || {
            x.avg_pool2d(PoolOptions::new(3).stride(2).padding(1))
        })?;
        self.time("global_avg_pool", || x.global_avg_pool())?;
        self.time("unfold", || x.unfold2d(FoldOptions::new(3).padding(1)))
    }

    fn products(&self) -> Result<()> {
        let (x, y) = (&self.random(&[1024, 1024]), &self.random(&[1024, 1024]));
        let batch = &x.reshape([64, 128, 128]);
        let (near, far) = (x.narrow(1, 0, 64), y.narrow(1, 0, 64));
        let (wide, row) = (&x.cast(DType::F64), &y.narrow(0, 0, 1).flatten());
        let heads = &self.random(&[8, 8, 256, 64]);
        self.time("matmul", || x.matmul(y))?;
        self.time("matmul_transposed", || x.matmul(&y.t()))?;
        self.time("matmul_f64", || wide.matmul(wide))?;
        self.time("matmul_batched", || batch.matmul(batch))?;
        self.time("matmul_vector", || x.matmul(row))?;
        self.time("einsum", || Tensor::einsum("bij,bkj->bik", &[batch, batch]))?;
        self.time("outer", || row.outer(row))?;
        self.time("cdist", || near.cdist(&far, 2.0))?;
        self.time("attention", || {
            heads.scaled_dot_product_attention(heads, heads, AttentionOptions::default())
        })
    }

    /// Ops of a name, of one tensor and of two.
    fn named(&self) -> Result<()> {
        let (x, y) = (&self.random(&[1024, 1024]), &self.random(&[1024, 1024]));
        let unary = [
            "exp",
            "expm1",
            "log",
            "log1p",
            "log2",
            "sin",
            "tan",
            "asin",
            "atan",
            "sinh",
            "tanh",
            "sigmoid",
            "silu",
            "mish",
            "softplus",
            "hardswish",
            "frac",
            "sign",
        ];
        let binary = [
            "fmod",
            "div_floor",
            "maximum",
            "copysign",
            "logaddexp",
            "xlogy",
            "lt",
            "fmax",
        ];
        let op = |name: &str, operands: &[&Tensor]| {
            let made = NamedOp::find(name).and_then(|op| op.call(operands));
            made.unwrap_or_else(|| panic!("no op {name} of {} tensors", operands.len()))
        };
        for name in unary {
            self.time(name, || op(name, &[x]))?;
        }
        for name in binary {
            self.time(name, || op(name, &[x, y]))?;
        }
        let (i, j) = (
            &(x * 1000.0).cast(DType::I64),
            &(y * 1000.0 + 1.0).cast(DType::I64),
        );
        self.time("i64_add", || i + j)?;
        self.time("i64_mul", || i * j)?;
        self.time("i64_remainder", || i.remainder(j))?;
        self.time("i64_div_floor", || i.div_floor(j))?;
        self.time("i64_sum", || i.sum())?;
        self.time("i64_max_1", || i.max_axes(1))?;
        self.time("i64_eq", || i.eq(j))?;
        let (a, b) = (&x.cast(DType::F64), &y.cast(DType::F64));
        self.time("f64_exp", || a.exp())?;
        self.time("f64_add", || a + b)?;
        self.time("f64_sum_1", || a.sum_axes(1))?;
        self.time("f64_softmax_1", || a.softmax(1))?;
        self.time("f64_sin", || a.sin())?;
        self.time("f64_log", || a.log())?;
        self.time("f64_pow", || a.pow(b))?;
        let (a, b) = (&x.cast(DType::BF16), &y.cast(DType::BF16));
        self.time("bf16_add", || a + b)?;
        self.time("bf16_gelu", || a.gelu())?;
        self.time("bf16_sum_1", || a.sum_axes(1))?;
        self.time("bf16_softmax_1", || a.softmax(1))?;
        self.time("bf16_layer_norm", || a.layer_norm([1024], None, None, 1e-5))?;
        self.time("bf16_matmul", || a.matmul(b))?;
        let images = &self.random(&[8, 64, 56, 56]).cast(DType::BF16);
        let (w, c) = (
            &self.random(&[64, 64, 3, 3]).cast(DType::BF16),
            &self.random(&[64]),
        );
        let (point, each) = (
            &self.random(&[256, 64, 1, 1]).cast(DType::BF16),
            &w.narrow(1, 0, 1).contiguous(),
        );
        let heads = &self.random(&[8, 8, 256, 64]).cast(DType::BF16);
        let same = ConvOptions::default().padding(1);
        self.time("bf16_conv", || images.conv2d(w, None, same))?;
        self.time("bf16_conv_1x1", || {
            images.conv2d(point, None, ConvOptions::default())
        })?;
        self.time("bf16_depthwise", || images.conv2d(each, None, same.groups(64)))?;
        self.time("bf16_batch_norm", || images.batch_norm(c, c, c, c, 1e-5))?;
        self.time("bf16_max_pool", || images.max_pool2d(PoolOptions::new(2)))?;
        self.time("bf16_relu", || images.relu())?;
        self.time("bf16_attention", || {
            heads.scaled_dot_product_attention(heads, heads, AttentionOptions::default())
        })?;
        self.time("bf16_linear", || a.linear(b, &b.narrow(0, 0, 1).flatten()))?;
        self.time("bf16_transpose", || a.t().contiguous())?;
        self.time("bf16_cast_f32", || a.cast(DType::F32))?;
        self.gradient("grad_bf16_matmul", a, |a| a.matmul(b))?;
        self.gradient("grad_bf16_conv", images, |x| x.conv2d(w, None, same))?;
        self.gradient("grad_bf16_conv_weight", w, |w| images.conv2d(w, None, same))?;
        self.gradient("grad_bf16_softmax", a, |a| a.softmax(1) * b)?;
        let a = &x.cast(DType::F16);
        self.time("f16_softmax_1", || a.softmax(1))?;
        self.time("f16_exp", || a.exp())
    }

    /// What networks of today use beside the others.
    fn networks(&self) -> Result<()> {
        let x = &self.random(&[1024, 1024]);
        let classes = &Tensor::randint(0, 1024, [1024], &self.cx);
        let images = &self.random(&[8, 64, 56, 56]);
        let (five, seven, point) = (
            &self.random(&[64, 1, 5, 5]),
            &self.random(&[64, 1, 7, 7]),
            &self.random(&[256, 64, 1, 1]),
        );
        let each = ConvOptions::default().groups(64);
        self.time("depthwise_5", || images.conv2d(five, None, each.padding(2)))?;
        self.time("depthwise_7", || images.conv2d(seven, None, each.padding(3)))?;
        self.time("depthwise_5_strided", || {
            images.conv2d(five, None, each.padding(2).stride(2))
        })?;
        self.time("conv_1x1", || images.conv2d(point, None, ConvOptions::default()))?;
        self.time("squeeze_excite", || {
            images * images.mean_axes([2, 3]).sigmoid().reshape([8, 64, 1, 1])
        })?;
        self.time("pixel_shuffle", || images.pixel_shuffle(2))?;
        self.time("channel_shuffle", || images.channel_shuffle(8))?;
        self.time("fold", || {
            self.columns(images)
                .fold2d([56, 56], FoldOptions::new(3).padding(1))
        })?;
        self.time("interpolate_down", || {
            images.interpolate(InterpolateOptions::factor(0.5))
        })?;
        self.time("cross_entropy", || {
            x.cross_entropy(classes, ClassLossOptions::new())
        })?;
        self.time("mse", || x.mse_loss(&(x + 1.0), Reduction::Mean))?;
        self.time("huber", || x.huber_loss(&(x + 1.0), 1.0, Reduction::Mean))?;
        self.time("kl_div", || x.kl_div(x, Reduction::Sum))?;
        self.time("cosine_similarity", || x.cosine_similarity(x, 1, 1e-8))?;
        self.time("normalize", || x.normalize(2.0, 1, 1e-12))?;
        self.time("rope", || {
            let halves = Tensor::concat(&[&-x.narrow(1, 512, 512), &x.narrow(1, 0, 512)], 1);
            x * x + halves * x
        })?;
        self.time("swiglu", || x.narrow(1, 0, 512).silu() * x.narrow(1, 512, 512))?;
        self.time("topk_100", || x.topk(100, 1, true).0)?;
        self.time("sort_with_indices", || x.sort_with_indices(1, false).0)?;
        self.time("triangular", || x.tril(0).solve_triangular(x, false, true))?;
        self.time("matmul_small", || {
            let few = x.reshape([4096, 16, 16]);
            few.matmul(&few)
        })?;
        self.time("matmul_thin", || x.matmul(&x.narrow(1, 0, 4)))?;
        self.time("matmul_row", || x.narrow(0, 0, 1).matmul(x))?;
        self.time("index_copy", || {
            x.index_copy(0, &classes.narrow(0, 0, 64), &x.narrow(0, 0, 64))
        })?;
        let embed = |t: &Tensor| t.embedding(classes, None);
        self.gradient("grad_embedding", x, embed)?;
        self.gradient("grad_cross_entropy", x, |x| {
            x.cross_entropy(classes, ClassLossOptions::new())
        })?;
        self.gradient("grad_rms_norm", x, |x| x.rms_norm([1024], None, 1e-5) * x)?;
        self.gradient("grad_silu", x, |x| x.silu())?;
        self.gradient("grad_log_softmax", x, |x| x.log_softmax(1) * x)?;
        self.gradient("grad_cumprod", x, |x| x.cumprod(1))?;
        self.gradient("grad_group_norm", images, |x| {
            x.group_norm(8, None, None, 1e-5).square()
        })?;
        self.gradient("grad_depthwise_5", images, |x| {
            x.conv2d(five, None, each.padding(2))
        })?;
        self.gradient("grad_conv_1x1", point, |w| {
            images.conv2d(w, None, ConvOptions::default())
        })?;
        self.gradient("grad_pad_reflect", images, |x| {
            x.pad(&[(0, 0), (0, 0), (1, 1), (1, 1)], PadMode::Reflect)
        })?;
        self.gradient("grad_index_select", x, |x| x.index_select(0, classes) * x)?;
        self.gradient("grad_cdist", &x.narrow(1, 0, 64), |x| x.cdist(x, 2.0))
    }

    fn columns(&self, images: &Tensor) -> Tensor {
        images.unfold2d(FoldOptions::new(3).padding(1))
    }

    fn gradients(&self) -> Result<()> {
        let (x, y) = (&self.random(&[1024, 1024]), &self.random(&[1024, 1024]));
        let (images, w, c) = (
            &self.random(&[8, 64, 56, 56]),
            &self.random(&[64, 64, 3, 3]),
            &self.random(&[64]),
        );
        let index = &Tensor::randint(0, 1024, [1024, 1024], &self.cx);
        let heads = &self.random(&[8, 8, 256, 64]);
        let same = ConvOptions::default().padding(1);
        let twice = InterpolateOptions::factor(2.0).mode(Interpolation::Linear);
        self.gradient("grad_gelu", x, |x| x.gelu())?;
        self.gradient("grad_softmax", x, |x| x.softmax(1) * y)?;
        self.gradient("grad_layer_norm", x, |x| {
            x.layer_norm([1024], None, None, 1e-5) * y
        })?;
        self.gradient("grad_batch_norm", images, |x| {
            x.batch_norm_train(c, c, 1e-5).output.square()
        })?;
        self.gradient("grad_conv_weight", w, |w| images.conv2d(w, None, same))?;
        self.gradient("grad_conv_input", images, |x| x.conv2d(w, None, same))?;
        self.gradient("grad_depthwise_weight", &w.narrow(1, 0, 1).contiguous(), |w| {
            images.conv2d(w, None, same.groups(64))
        })?;
        self.gradient("grad_max_pool", images, |x| x.max_pool2d(PoolOptions::new(2)))?;
        self.gradient("grad_avg_pool", images, |x| x.avg_pool2d(PoolOptions::new(2)))?;
        self.gradient("grad_interpolate", images, |x| x.interpolate(twice))?;
        self.gradient("grad_gather", x, |x| x.gather(1, index))?;
        self.gradient("grad_matmul", x, |x| x.matmul(y))?;
        self.gradient("grad_attention", heads, |x| {
            x.scaled_dot_product_attention(x, x, AttentionOptions::default())
        })?;
        self.gradient("grad_cumsum", x, |x| x.cumsum(1) * y)?;
        self.gradient("grad_sort", x, |x| x.sort(1, false) * y)?;
        self.gradient("grad_topk", x, |x| x.topk(5, 1, true).0)?;
        self.gradient("grad_where", x, |x| x.gt(0.5).where_cond(x * 2.0, x))?;
        self.gradient("grad_prod", x, |x| x.prod_axes(1))?;
        self.gradient("grad_norm", x, |x| x.norm(2.0))?;
        self.gradient("grad_max", x, |x| x.max_axes(1))?;
        self.gradient("grad_logsumexp", x, |x| x.logsumexp_axes(1))
    }
}

fn main() -> Result<()> {
    let survey = Survey {
        cx: Context::new("cpu")?,
        filter: std::env::args().nth(1).unwrap_or_default(),
    };
    survey.maps()?;
    survey.reductions()?;
    survey.norms()?;
    survey.moves()?;
    survey.indices()?;
    survey.images()?;
    survey.products()?;
    survey.named()?;
    survey.networks()?;
    survey.thin()?;
    survey.gradients()
}
