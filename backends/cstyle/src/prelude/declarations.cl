/* What programs call of OpenCL C on a processor, as Clang's header declares it. A part of that header, with the types, may have been
   read. */
#ifdef _OPENCL_BASE_H_
#define TL_VECTORS(type)
#else
#define TL_VECTORS(type)                                                                                               \
    typedef type type##2 __attribute__((ext_vector_type(2)));                                                          \
    typedef type type##4 __attribute__((ext_vector_type(4)));                                                          \
    typedef type type##8 __attribute__((ext_vector_type(8)));                                                          \
    typedef type type##16 __attribute__((ext_vector_type(16)));
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;
#define CLK_LOCAL_MEM_FENCE 1
#define as_uint(x) __builtin_astype((x), uint)
#define as_float(x) __builtin_astype((x), float)
#define as_ulong(x) __builtin_astype((x), ulong)
#define as_double(x) __builtin_astype((x), double)
#endif
TL_VECTORS(uint)
TL_VECTORS(ulong)
TL_VECTORS(float)

#define TL_LIBRARY __attribute__((overloadable, const))
size_t TL_LIBRARY get_global_size(uint);
size_t TL_LIBRARY get_global_id(uint);
size_t TL_LIBRARY get_local_size(uint);
size_t TL_LIBRARY get_local_id(uint);
size_t TL_LIBRARY get_num_groups(uint);
size_t TL_LIBRARY get_group_id(uint);
void __attribute__((overloadable, convergent)) barrier(uint);
uint __attribute__((overloadable)) atomic_inc(volatile __local uint *);
uint __attribute__((overloadable)) atomic_inc(volatile __global uint *);
ulong TL_LIBRARY clz(ulong);

#define TL_LIBRARY_OF(type)                                                                                            \
    type TL_LIBRARY fabs(type);                                                                                        \
    type TL_LIBRARY floor(type);                                                                                       \
    type TL_LIBRARY ceil(type);                                                                                        \
    type TL_LIBRARY trunc(type);                                                                                       \
    type TL_LIBRARY sqrt(type);                                                                                        \
    type TL_LIBRARY fmod(type, type);                                                                                  \
    type TL_LIBRARY copysign(type, type);                                                                              \
    type TL_LIBRARY fma(type, type, type);                                                                             \
    type##2 TL_LIBRARY fma(type##2, type##2, type##2);                                                                 \
    type##4 TL_LIBRARY fma(type##4, type##4, type##4);                                                                 \
    type##8 TL_LIBRARY fma(type##8, type##8, type##8);                                                                 \
    type##16 TL_LIBRARY fma(type##16, type##16, type##16);
TL_LIBRARY_OF(float)
