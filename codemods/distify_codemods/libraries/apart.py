"""Functions of torch and NumPy that treat each entry, or each sample, by itself: as long as nothing that they are given
says otherwise, such as a dimension.

Of any other it is not known whether it looks at several samples together. Those that do, and are asked for often, are
told apart where values are followed.
"""

from __future__ import annotations

_NAMES = frozenset(
    """BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
    ShortTensor Tensor abs absolute acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    adaptive_max_pool1d adaptive_max_pool1d_with_indices adaptive_max_pool2d adaptive_max_pool2d_with_indices
    adaptive_max_pool3d adaptive_max_pool3d_with_indices add addcdiv addcmul addmm addmv addr affine_grid airy_ai all
    alltrue alpha_dropout amax amin aminmax angle any arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax
    argmin argsort argwhere around array as_strided as_tensor asanyarray asarray asarray_chkfinite
    ascontiguousarray asfarray asfortranarray asin asinh astype atan atan2 atanh atleast_1d atleast_2d atleast_3d
    average avg_pool1d avg_pool2d avg_pool3d baddbmm bernoulli bessel_j0 bessel_j1 bessel_y0 bessel_y1 bilinear
    binomial bitwise_and bitwise_not bitwise_or bitwise_xor bmm bool_ broadcast_arrays broadcast_tensors bucketize
    cast cbrt ceil celu channel_shuffle chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v
    chebyshev_polynomial_w cholesky chunk clamp clamp_max clamp_min clip clone complex compress cond conj conjugate
    constant_pad_nd conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d copy copysign cos
    cosh cosine_similarity count_nonzero cross cummax cummin cumprod cumsum deg2rad degrees dequantize det detach
    diag_indices_from diagonal diff digamma digitize div divide divmod dot double dropout dropout1d
    dropout2d dropout3d dsplit eig eigh eigvals eigvalsh einsum elu embedding embedding_bag empty_like entr eq equal
    erf erfc erfcx erfinv exp exp2 expand expand_as expand_dims expit expm1 fabs feature_alpha_dropout feature_dropout
    fft fft2 fftn fftshift fill fix flatnonzero flatten flip fliplr flipud float16 float32 float64 float_ float_power
    floor floor_divide fmax fmin fmod fold frac fractional_max_pool2d fractional_max_pool3d frexp frobenius_norm
    from_numpy full_like gammainc gammaincc gammaln gather gcd ge gelu ger glu gradient greater greater_equal
    grid_sample grid_sampler group_norm gru_cell gt gumbel_softmax half hardshrink hardsigmoid hardswish hardtanh
    heaviside hermite_polynomial_h hermite_polynomial_he hfft hfft2 hfftn hsplit hstack hypot i0 i0e i1 i1e ifft ifft2
    ifftn ifftshift igamma igammac ihfft ihfft2 ihfftn imag in1d index_add index_copy index_fill index_reduce
    index_select inner instance_norm int16 int32 int64 int8 int_ interpolate inv inverse invert irfft irfft2 irfftn
    isclose iscomplex isfinite isin isinf isnan isneginf isposinf isreal istft kron kthvalue laguerre_polynomial_l
    layer_norm lcm ldexp le leaky_relu legendre_polynomial_p lerp less less_equal lgamma linear local_response_norm
    log log10 log1p log2 log_ndtr log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not
    logical_or logical_xor logit logsigmoid logsumexp lp_pool1d lp_pool2d lp_pool3d lstm_cell lt masked_fill
    masked_select matmul matrix matrix_exp matrix_norm matrix_power matrix_rank max max_pool1d max_pool1d_with_indices
    max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool1d max_unpool2d max_unpool3d
    maximum mean median min minimum mish mm mod mode modf modified_bessel_i0 modified_bessel_i1 modified_bessel_k0
    modified_bessel_k1 moveaxis movedim mul multigammaln multinomial multiply mv mvlgamma nan_to_num nanargmax
    nanargmin nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar narrow ndtr ndtri
    ne neg negative nextafter nonzero norm normal normalize not_equal nuclear_norm numel one_hot ones_like outer pad
    pairwise_distance percentile permute pinverse pixel_shuffle pixel_unshuffle poisson polar polygamma positive pow
    power prelu prod product psi ptp put_along_axis quantile rad2deg radians rand_like randint_like randn_like ravel
    real real_if_close reciprocal relu relu6 remainder repeat repeat_interleave reshape rfft rfft2 rfftn rint rms_norm
    rnn_relu_cell rnn_tanh_cell roll rot90 round row_stack rrelu rsqrt rsub scalar_tensor scaled_dot_product_attention
    scaled_modified_bessel_k0 scaled_modified_bessel_k1 scatter scatter_add scatter_reduce searchsorted select selu
    sgn shape shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
    shifted_chebyshev_polynomial_w sigmoid sign signbit silu sin sinc single sinh size slogdet softmax softmin
    softplus softshrink softsign solve sometrue sort spherical_bessel_j0 split sqrt square squeeze std std_mean stft
    sub subtract sum swapaxes swapdims t take take_along_axis take_along_dim tan tanh tanhshrink tensor tensor_split
    tensordot threshold tile topk trace transpose trapezoid trapz tril triu true_divide trunc uint8 unbind unflatten
    unfold unsqueeze unwrap upsample upsample_bilinear upsample_nearest upsample_trilinear var var_mean vdot vecdot
    vector_norm view view_as_complex view_as_real where xlog1py xlogy zero zeros_like zeta""".split()
)  # fmt: skip


#: Of the same name, but of all dimensions, or of all entries together.
_BUT = frozenset({"numpy.pad", "torch.equal"})


def treats_samples_apart(name: str) -> bool:
    """name: of a function, in full."""
    last = name.rsplit(".", 1)[-1]
    return name not in _BUT and (last.rstrip("_") in _NAMES or last in _NAMES)
